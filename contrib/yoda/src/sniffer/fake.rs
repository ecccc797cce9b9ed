//! Cards from a file, for clusters without GPUs.

use std::{
    fs,
    path::{Path, PathBuf},
};

use super::SnifferError;
use crate::scv::{Card, HEALTHY};

/// A YAML list of cards with the fields of [`Card`]. Only `id` is required, and `health` defaults to healthy.
#[derive(Debug)]
pub struct FakeCards(PathBuf);

impl FakeCards {
    /// Returns the cards in the given file, which need not exist yet.
    pub fn of(path: &Path) -> Self {
        Self(path.to_owned())
    }

    /// Reads the file.
    ///
    /// # Errors
    /// If the file is missing or is not a list of cards.
    pub fn read(&self) -> Result<Vec<Card>, SnifferError> {
        let wrong = |message: String| SnifferError::Fake { path: self.0.clone(), message };
        let text = fs::read_to_string(&self.0).map_err(|error| wrong(error.to_string()))?;
        let mut cards: Vec<Card> = serde_saphyr::from_str(&text).map_err(|error| wrong(error.to_string()))?;
        for card in cards.iter_mut().filter(|card| card.health.is_empty()) {
            card.health = HEALTHY.to_owned();
        }
        Ok(cards)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_read_again_and_errors_in_it_are_reported() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("cards.yaml");
        let cards = FakeCards::of(&path);
        let missing = cards.read().unwrap_err().to_string();
        assert!(missing.contains("cards.yaml: "), "{missing}");
        fs::write(&path, "- {id: 0, totalMemory: 16000, freeMemory: 8000}\n- {id: 1, health: Unhealthy}\n")
            .unwrap();
        let read = cards.read().unwrap();
        assert_eq!(
            read.iter().map(|card| (card.id, card.is_healthy())).collect::<Vec<_>>(),
            [(0, true), (1, false)]
        );
        assert_eq!((read[0].total_memory, read[0].free_memory), (16000, 8000));
        fs::write(&path, "- {health: Healthy}\n").unwrap();
        let wrong = cards.read().unwrap_err().to_string();
        assert!(wrong.contains("missing field `id`"), "{wrong}");
    }
}
