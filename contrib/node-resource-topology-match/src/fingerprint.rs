//! Fingerprints of the pods on a node, by which an agent tells which pods a NodeResourceTopology contains.

/// Returns the fingerprint of pods, given as pairs of a namespace and a name, in any order.
pub fn fingerprint<'a>(pods: impl Iterator<Item = (&'a str, &'a str)>) -> String {
    let mut hashes: Vec<u64> = pods.map(|(namespace, name)| hash(namespace, name)).collect();
    hashes.sort_unstable();
    of_hashes(&hashes)
}

/// Hash of a pod.
pub(crate) fn hash(namespace: &str, name: &str) -> u64 {
    xxh64(name.as_bytes(), xxh64(namespace.as_bytes(), 0))
}

/// Returns the fingerprint of pods with these hashes, in ascending order.
pub(crate) fn of_hashes(hashes: &[u64]) -> String {
    let bytes: Vec<u8> = hashes.iter().flat_map(|hash| hash.to_le_bytes()).collect();
    format!("pfp0v001{:016x}", xxh64(&bytes, 0))
}

const PRIMES: [u64; 5] = [
    0x9e37_79b1_85eb_ca87,
    0xc2b2_ae3d_27d4_eb4f,
    0x1656_67b1_9e37_79f9,
    0x85eb_ca77_c2b2_ae63,
    0x27d4_eb2f_1656_67c5,
];

fn round(sum: u64, input: u64) -> u64 {
    sum.wrapping_add(input.wrapping_mul(PRIMES[1])).rotate_left(31).wrapping_mul(PRIMES[0])
}

fn word(bytes: &[u8]) -> u64 {
    bytes.iter().rev().fold(0, |word, byte| word << 8 | u64::from(*byte))
}

/// XXH64 of the bytes.
pub(crate) fn xxh64(bytes: &[u8], seed: u64) -> u64 {
    let (mut hash, mut rest);
    if bytes.len() >= 32 {
        let mut sums = [
            seed.wrapping_add(PRIMES[0]).wrapping_add(PRIMES[1]),
            seed.wrapping_add(PRIMES[1]),
            seed,
            seed.wrapping_sub(PRIMES[0]),
        ];
        let stripes = bytes.chunks_exact(32);
        rest = stripes.remainder();
        for stripe in stripes {
            for (sum, lane) in sums.iter_mut().zip(stripe.chunks_exact(8)) {
                *sum = round(*sum, word(lane));
            }
        }
        hash = sums[0]
            .rotate_left(1)
            .wrapping_add(sums[1].rotate_left(7))
            .wrapping_add(sums[2].rotate_left(12))
            .wrapping_add(sums[3].rotate_left(18));
        for sum in sums {
            hash = (hash ^ round(0, sum)).wrapping_mul(PRIMES[0]).wrapping_add(PRIMES[3]);
        }
    } else {
        (hash, rest) = (seed.wrapping_add(PRIMES[4]), bytes);
    }
    hash = hash.wrapping_add(bytes.len() as u64);
    while let Some((lane, after)) = rest.split_at_checked(8) {
        hash = (hash ^ round(0, word(lane))).rotate_left(27).wrapping_mul(PRIMES[0]).wrapping_add(PRIMES[3]);
        rest = after;
    }
    if let Some((half, after)) = rest.split_at_checked(4) {
        hash = (hash ^ word(half).wrapping_mul(PRIMES[0])).rotate_left(23);
        hash = hash.wrapping_mul(PRIMES[1]).wrapping_add(PRIMES[2]);
        rest = after;
    }
    for byte in rest {
        hash = (hash ^ u64::from(*byte).wrapping_mul(PRIMES[4])).rotate_left(11).wrapping_mul(PRIMES[0]);
    }
    hash = (hash ^ hash >> 33).wrapping_mul(PRIMES[1]);
    hash = (hash ^ hash >> 29).wrapping_mul(PRIMES[2]);
    hash ^ hash >> 32
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fingerprints_are_those_of_the_agents() {
        for (pods, expected) in [
            (&[][..], "pfp0v001ef46db3751d8e999"),
            (&[("default", "p1")][..], "pfp0v00152f1f612becb81d1"),
            (&[("kube-system", "kube-proxy-abc"), ("default", "p1")][..], "pfp0v00190c23088a5f631e6"),
        ] {
            assert_eq!(fingerprint(pods.iter().copied()), expected);
        }
    }

    #[test]
    fn long_inputs_are_hashed_in_stripes() {
        // From the reference implementation: bytes 0, 1, 2, … of some lengths.
        let bytes: Vec<u8> = (0..=255).collect();
        assert_eq!(xxh64(&bytes[..0], 0), 0xef46_db37_51d8_e999);
        assert_eq!(xxh64(b"a", 0), 0xd24e_c4f1_a98c_6e5b);
        assert_eq!(xxh64(b"abc", 0), 0x44bc_2cf5_ad77_0999);
        assert_ne!(xxh64(&bytes[..32], 0), xxh64(&bytes[..33], 0));
    }
}
