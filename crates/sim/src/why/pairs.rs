//! Finds pairs of a change to the pod and a change to the rest of the cluster.

use harbormaster_framework::attempt::AttemptError;

use super::{Change, Remedy, change::changed, trials::Trials};

/// Maximum number of changes to the pod that are combined with others.
const IDEAS: usize = 8;

impl Trials {
    /// Returns pairs in which the pod evicts others, or a single other pod makes room, once the pod has been changed.
    /// Neither change may suffice alone.
    pub(super) fn pairs(&mut self) -> Result<Vec<Remedy>, AttemptError> {
        let mut ideas = self.ideas();
        // Less of a request would compete with the room that others make.
        ideas.retain(|idea| idea.is_of_pod() && !matches!(idea, Change::LowerRequest { .. }));
        ideas.truncate(IDEAS);
        let mut found = Vec::new();
        for idea in ideas {
            found.extend(self.raise_priority(std::slice::from_ref(&idea))?);
            let unchanged = self.pod.clone();
            self.pod = changed(&unchanged, std::slice::from_ref(&idea));
            let room = self.smallest_room();
            self.pod = unchanged;
            if let Some(mut remedy) = room? {
                remedy.changes.insert(0, idea);
                found.push(remedy);
            }
        }
        Ok(found)
    }
}
