//! The minimum and maximum of many numbers.
//!
//! Contract: same as folding `min` and `max` over the numbers; without numbers, the largest
//! possible number and zero. Compiled for the widest vectors of the machine. N.B. with baseline
//! x86-64 instructions it takes six times as long (docs/decisions/0022).

vectorised! {
    /// The minimum and maximum of `numbers`.
    fn bounds_u32(numbers: &[u32]) -> (u32, u32) {
        numbers.iter().fold((u32::MAX, 0), |(least, most), &number| {
            (least.min(number), most.max(number))
        })
    }
}

vectorised! {
    /// The minimum and maximum of `numbers`.
    fn bounds_u64(numbers: &[u64]) -> (u64, u64) {
        numbers.iter().fold((u64::MAX, 0), |(least, most), &number| {
            (least.min(number), most.max(number))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::super::mixing::mix;
    use super::*;

    #[test]
    fn bounds_are_those_that_iterators_find() {
        for count in 0..200 {
            let numbers: Vec<u64> = (0..count).map(|i| mix(i) >> (i % 50)).collect();
            let (least, most) = bounds_u64(&numbers);
            assert_eq!(least, numbers.iter().copied().min().unwrap_or(u64::MAX));
            assert_eq!(most, numbers.iter().copied().max().unwrap_or(0));
            let numbers: Vec<u32> = numbers.iter().map(|number| *number as u32).collect();
            let (least, most) = bounds_u32(&numbers);
            assert_eq!(least, numbers.iter().copied().min().unwrap_or(u32::MAX));
            assert_eq!(most, numbers.iter().copied().max().unwrap_or(0));
        }
    }
}
