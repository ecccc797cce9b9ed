//! Tests of the engine through its public interface.

#![allow(clippy::unwrap_used, reason = "a failing set-up fails the test")]

mod arrows;
mod assumed_objects;
mod concurrent_extenders;
mod containment;
mod custom_resources;
mod device_ledger;
mod devices;
mod dump;
mod engine;
mod eviction;
mod extenders;
mod groups;
mod many_preemptors;
mod notes;
mod nothing_is_lost;
mod pod_state;
mod reconfigure;
mod recording;
mod releases;
mod replaying;
mod retry_times;
mod room;
mod shadow;
mod volume_binding;
mod what_if;
mod world;
