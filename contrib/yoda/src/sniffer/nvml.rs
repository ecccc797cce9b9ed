//! Cards as reported by the NVIDIA driver.

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
    /// If there is no driver.
    pub fn find() -> Result<Self, SnifferError> {
        Nvml::init().map(Self).map_err(SnifferError::NoDriver)
    }

    /// Reads all cards. A card that does not respond is reported as unhealthy, with the values that could be read.
    ///
    /// # Errors
    /// If the driver does not return the number of cards.
    pub fn read(&self) -> Result<Vec<Card>, SnifferError> {
        let count = self.0.device_count().map_err(SnifferError::NoCount)?;
        Ok((0..count)
            .map(|id| {
                self.0.device_by_index(id).map_or_else(|_| unreadable_card(id), |device| card(id, &device))
            })
            .collect())
    }
}

/// Returns an unhealthy card, for an index at which the driver returns no device.
fn unreadable_card(id: u32) -> Card {
    Card { id, health: UNHEALTHY.to_owned(), ..Card::default() }
}

fn card(id: u32, device: &Device<'_>) -> Card {
    let memory = device.memory_info();
    // Old, new or virtual cards may lack other values; only the memory is required.
    let health = if memory.is_ok() { HEALTHY } else { UNHEALTHY };
    let (total, free) = memory.map_or((0, 0), |memory| (memory.total, memory.free));
    Card {
        id,
        health: health.to_owned(),
        model: device.name().unwrap_or_default(),
        power: or_zero(device.power_management_limit()) / 1000,
        total_memory: total >> 20,
        clock: or_zero(device.max_clock_info(Clock::Memory)),
        free_memory: free >> 20,
        core: or_zero(device.max_clock_info(Clock::SM)),
        bandwidth: or_zero(device.max_pcie_link_width()) * per_lane(or_zero(device.max_pcie_link_gen())),
    }
}

fn or_zero(answer: Result<u32, NvmlError>) -> u64 {
    answer.map_or(0, u64::from)
}

/// Returns the usable bandwidth of one lane in MB/s, by PCI Express generation.
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
    fn sixteen_lanes_of_the_third_generation_have_the_bandwidth_that_the_original_reports() {
        assert_eq!(16 * per_lane(3), 15760);
    }

    #[test]
    fn a_card_that_cannot_be_read_is_unhealthy() {
        assert!(!unreadable_card(3).is_healthy());
    }
}
