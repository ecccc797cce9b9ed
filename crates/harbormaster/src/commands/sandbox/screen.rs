//! A table of pods that is redrawn in place.

use harbormaster_sandbox::{Board, PodState, PodView};

use super::super::{
    alike::{self, Row},
    layout::{self, Colour, Style, Table},
};

/// Number of terminal lines that do not show pods: the title, the note about omitted pods, the summary, and a spare
/// line.
const OTHER_LINES: usize = 4;

#[derive(Debug)]
pub(super) struct Screen {
    colours: bool,
    stale: bool,
    /// Number of lines that were last drawn.
    lines: usize,
}

impl Screen {
    pub(super) fn new(colours: bool) -> Self {
        Self { colours, stale: true, lines: 0 }
    }

    /// Marks the table as outdated.
    pub(super) fn mark_stale(&mut self) {
        self.stale = true;
    }

    /// Returns the text that draws the current board; empty if the board is already on the screen.
    pub(super) fn redrawn(&mut self, board: &Board) -> String {
        if !std::mem::take(&mut self.stale) {
            return String::new();
        }
        let (width, height) = layout::terminal_size();
        let frame = frame(&ordered(board), width.into(), height.into(), self.colours);
        let text = frame.iter().fold(self.erased(), |text, line| text + line + "\n");
        self.lines = frame.len();
        text + &super::summary(board) + "\r"
    }

    /// Returns the text that replaces the table with one that shows all pods and their full messages.
    pub(super) fn whole(&self, board: &Board) -> String {
        let style = Style {
            colours: self.colours,
            width: Some(layout::terminal_size().0.into()),
            ..Style::default()
        };
        let rows: Vec<Row> = ordered(board).into_iter().map(row).collect();
        let mut table = Table::new(["POD", "NODE", "MESSAGE"]);
        for group in &alike::grouped(rows) {
            table.add([alike::pods(group), alike::places(group), alike::message(group)]);
        }
        self.erased() + &table.render(style)
    }

    /// Returns the text that prints a line where the table was; the table is then redrawn below the line.
    pub(super) fn above(&mut self, line: &str) -> String {
        let text = self.erased() + line + "\n";
        (self.stale, self.lines) = (true, 0);
        text
    }

    fn erased(&self) -> String {
        match self.lines {
            0 => "\r\x1b[J".to_owned(),
            lines => format!("\x1b[{lines}A\r\x1b[J"),
        }
    }
}

fn row(pod: &PodView) -> Row {
    Row {
        pod: plain(&pod.name),
        group: pod.group.as_deref().map(plain),
        place: where_to(pod),
        is_placed: matches!(pod.state, PodState::Placed | PodState::Finished),
        colour: Some(match pod.state {
            PodState::Placed | PodState::Finished => Colour::Green,
            PodState::Unschedulable => Colour::Red,
            _ => Colour::Yellow,
        }),
        message: words(pod),
        ..Row::default()
    }
}

/// Returns the pods in display order. Pods without a node come first, because they matter most.
fn ordered(board: &Board) -> Vec<&PodView> {
    let mut pods: Vec<&PodView> = board.pods().collect();
    pods.sort_by_key(|pod| pod.state);
    pods
}

fn where_to(pod: &PodView) -> String {
    match (pod.state, &pod.node) {
        (PodState::Gated, _) => "<gated>".to_owned(),
        (PodState::Foreign, _) => "<foreign>".to_owned(),
        (PodState::Unschedulable, _) => "<none>".to_owned(),
        (PodState::Waiting, _) => "…".to_owned(),
        (_, Some(node)) => plain(node),
        (_, None) => "<none>".to_owned(),
    }
}

fn words(pod: &PodView) -> String {
    match (&pod.message, pod.state) {
        (Some(message), PodState::Ending) => format!("is being deleted: {}", plain(message)),
        (Some(message), _) => plain(message),
        (None, PodState::Ending) => "is being deleted".to_owned(),
        (None, PodState::Finished) => "has finished".to_owned(),
        (None, PodState::Placed) => pod.phase.clone(),
        (None, _) => String::new(),
    }
}

/// Replaces control characters in untrusted text, because they could move the terminal's cursor.
pub(super) fn plain(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect()
}

/// Returns the table as lines that fit a terminal of the given size.
fn frame(pods: &[&PodView], width: usize, height: usize, colours: bool) -> Vec<String> {
    let room = height.saturating_sub(OTHER_LINES).max(1);
    let (shown, cut) = pods.split_at(room.min(pods.len()));
    let columns = |pod: &PodView| [plain(&pod.name), where_to(pod), words(pod)];
    let rows: Vec<[String; 3]> = shown.iter().map(|pod| columns(pod)).collect();
    let longest = |column: usize, title: &str| {
        let lengths = rows.iter().map(|row| row[column].chars().count());
        lengths.chain([title.len()]).max().unwrap_or(0)
    };
    let (first, second) = (longest(0, "POD"), longest(1, "NODE"));
    let line = |[pod, node, message]: &[String; 3]| {
        let text = format!("{pod:first$}  {node:second$}  {message}");
        let text = text.trim_end();
        match text.chars().count() > width {
            true => text.chars().take(width.saturating_sub(1)).chain(['…']).collect(),
            false => text.to_owned(),
        }
    };
    let paint = |text: String, code: &str| match colours {
        true => format!("\x1b[{code}m{text}\x1b[0m"),
        false => text,
    };
    let mut lines = vec![paint(line(&["POD", "NODE", "MESSAGE"].map(str::to_owned)), "1")];
    for (row, pod) in rows.iter().zip(shown) {
        let code = match pod.state {
            PodState::Unschedulable => "31",
            PodState::Placed | PodState::Finished => "32",
            _ => "33",
        };
        lines.push(paint(line(row), code));
    }
    if !cut.is_empty() {
        lines.push(format!("… and {} more", cut.len()));
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pod(name: &str, state: PodState, message: Option<&str>) -> PodView {
        PodView {
            name: name.to_owned(),
            uid: String::new(),
            node: Some("n1".to_owned()).filter(|_| state == PodState::Placed),
            phase: "Running".to_owned(),
            state,
            message: message.map(str::to_owned),
            scheduler: String::new(),
            group: None,
        }
    }

    #[test]
    fn a_frame_fits_the_terminal_and_shows_the_number_of_omitted_pods() {
        let stuck = pod("a/stuck", PodState::Unschedulable, Some("no\x1b[2J luck at all, and a long story"));
        let placed = pod("a/placed", PodState::Placed, None);
        let pods = [&stuck, &placed, &placed, &placed];
        let lines = frame(&pods, 30, 7, false);
        assert_eq!(
            lines,
            [
                "POD       NODE    MESSAGE",
                "a/stuck   <none>  no [2J luck…",
                "a/placed  n1      Running",
                "a/placed  n1      Running",
                "… and 1 more",
            ]
        );
        assert!(frame(&pods, 30, 7, true)[1].starts_with("\x1b[31ma/stuck"));
    }
}
