use harbormaster_testkit::{index_equals_rebuilt_one, node};

use super::VolumeUsers;
use crate::volume_restrictions::tests::random_pod;

#[test]
fn the_index_equals_a_rebuilt_one() {
    for seed in 0..20 {
        index_equals_rebuilt_one::<VolumeUsers>(seed, |_, name| node(name), random_pod);
    }
}
