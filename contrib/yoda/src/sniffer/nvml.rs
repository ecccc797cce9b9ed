//! Cards as the NVIDIA driver tells of them.

use nvml_wrapper::{Device, Nvml, enum_wrappers::device::Clock, error::NvmlError};

use super::SnifferError;
use crate::scv::{Card, HEALTHY, UNHEALTHY};

/// The NVIDIA Management Library, loaded when the program starts.
#[derive(Debug)]
pub struct NvmlCards(Nvml);

impl NvmlCards {
    /// Loads the library.
    ///
    /// # Errors
    /// When there is no driver.
    pub fn find() -> Result<Self, SnifferError> {
        Nvml::init().map(Self).map_err(SnifferError::NoDriver)
    }

    /// Asks for every card. One that does not answer is told of as unhealthy, with what could be read.
    ///
    /// # Errors
    /// When the driver does not even say how many cards there are.
    pub fn read(&self) -> Result<Vec<Card>, SnifferError> {
        let count = self.0.device_count().map_err(SnifferError::NoCount)?;
        Ok((0..count)
            .map(|id| self.0.device_by_index(id).map_or_else(|_| lost(id), |device| card(id, &device)))
            .collect())
    }
}

/// A card that is counted, and cannot be asked.
fn lost(id: u32) -> Card {
    Card { id, health: UNHEALTHY.to_owned(), ..Card::default() }
}

fn card(id: u32, device: &Device<'_>) -> Card {
    let memory = device.memory_info();
    // The rest a card may be too old, too new or too virtual to tell; only the memory must be known.
    let health = if memory.is_ok() { HEALTHY } else { UNHEALTHY };
    let (total, free) = memory.map_or((0, 0), |memory| (memory.total, memory.free));
    Card {
        id,
        health: health.to_owned(),
        model: device.name().unwrap_or_default(),
        power: told(device.power_management_limit()) / 1000,
        total_memory: total >> 20,
        clock: told(device.max_clock_info(Clock::Memory)),
        free_memory: free >> 20,
        core: told(device.max_clock_info(Clock::SM)),
        bandwidth: told(device.max_pcie_link_width()) * per_lane(told(device.max_pcie_link_gen())),
    }
}

fn told(answer: Result<u32, NvmlError>) -> u64 {
    answer.map_or(0, u64::from)
}

/// MB/s of a lane of that generation of PCI Express, after its encoding.
fn per_lane(generation: u64) -> u64 {
    match generation {
        0 => 0,
        1 => 250,
        2 => 500,
        3 => 985,
        4 => 1969,
        5 => 3938,
        _ => 7563,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sixteen_lanes_of_the_third_generation_are_the_bandwidth_that_the_original_tells() {
        assert_eq!(16 * per_lane(3), 15760);
    }

    #[test]
    fn a_lost_card_is_unhealthy() {
        assert!(!lost(3).is_healthy());
    }
}
