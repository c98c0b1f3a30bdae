//! Distributions of generated keys, as text and as values.
//!
//! Contract: parsing is exact and strict. Whether a parameter suits a type is checked where the
//! type is known. [`crate::generator`] defines each distribution.

use std::fmt;
use std::str::FromStr;

use outcore::{Error, Result};

/// How keys are distributed; see the table of [`crate::generator`].
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub enum Distribution {
    /// The whole range of the type.
    #[default]
    Whole,
    /// From 0 up to and excluding `mu`.
    Uniform {
        /// The bound; a whole number for integers, exact up to 2^53.
        mu: f64,
    },
    /// Exponential.
    Exponential {
        /// The rate; the mean is 1 / lambda.
        lambda: f64,
    },
    /// Zipf's law over ranks.
    Zipf {
        /// The exponent s.
        exponent: f64,
        /// The number of ranks, if given.
        rank_max: Option<u64>,
    },
    /// Gaussian: mean 0, standard deviation 1.
    Normal,
    /// Gaussian around one of several centres, which the elements of a vector share.
    Clusters {
        /// Number of centres.
        centres: u64,
    },
    /// Edges of a random graph in which few vertices have many edges: two vertices below 2^scale
    /// per record.
    Rmat {
        /// The logarithm of the number of vertices.
        scale: u32,
    },
    /// As `Rmat`, with vertices in random order, as in Graph500's Kronecker generator.
    Kronecker {
        /// The logarithm of the number of vertices.
        scale: u32,
    },
    /// Ascending in the order of the keys.
    Sorted,
    /// Descending in the order of the keys.
    Reversed,
    /// The same value everywhere.
    Equal,
}

impl FromStr for Distribution {
    type Err = Error;

    /// Reads `uniform`, `uniform:MU`, `exponential:LAMBDA`, `zipf:S`, `zipf:S:RANKS`, `normal`,
    /// `clusters:K`, `rmat:SCALE`, `kronecker:SCALE`, `sorted`, `reversed`, `equal`.
    fn from_str(text: &str) -> Result<Self> {
        let unknown = || {
            Error::usage(
                "read distribution",
                format!("unknown distribution `{text}`"),
            )
            .hint(
                "known: uniform, uniform:MU, exponential:LAMBDA, zipf:S, zipf:S:RANKS, \
                 normal, clusters:K, rmat:SCALE, kronecker:SCALE, sorted, reversed, equal",
            )
        };
        let parts: Vec<&str> = text.split(':').collect();
        let real = |text: &str| text.parse::<f64>().map_err(|_| unknown());
        match parts.as_slice() {
            ["uniform"] => Ok(Distribution::Whole),
            ["uniform", mu] => Ok(Distribution::Uniform { mu: real(mu)? }),
            ["exponential", lambda] => Ok(Distribution::Exponential {
                lambda: real(lambda)?,
            }),
            ["zipf", s] => Ok(Distribution::Zipf {
                exponent: real(s)?,
                rank_max: None,
            }),
            ["zipf", s, ranks] => {
                let rank_max = Some(ranks.parse().map_err(|_| unknown())?);
                Ok(Distribution::Zipf {
                    exponent: real(s)?,
                    rank_max,
                })
            }
            ["normal"] => Ok(Distribution::Normal),
            ["clusters", centres] => Ok(Distribution::Clusters {
                centres: centres.parse().map_err(|_| unknown())?,
            }),
            ["rmat", scale] => Ok(Distribution::Rmat {
                scale: scale.parse().map_err(|_| unknown())?,
            }),
            ["kronecker", scale] => Ok(Distribution::Kronecker {
                scale: scale.parse().map_err(|_| unknown())?,
            }),
            ["sorted"] => Ok(Distribution::Sorted),
            ["reversed"] => Ok(Distribution::Reversed),
            ["equal"] => Ok(Distribution::Equal),
            _ => Err(unknown()),
        }
    }
}

impl fmt::Display for Distribution {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Distribution::Whole => f.write_str("uniform"),
            Distribution::Uniform { mu } => write!(f, "uniform:{mu}"),
            Distribution::Exponential { lambda } => write!(f, "exponential:{lambda}"),
            Distribution::Zipf {
                exponent,
                rank_max: None,
            } => write!(f, "zipf:{exponent}"),
            Distribution::Zipf {
                exponent,
                rank_max: Some(ranks),
            } => {
                write!(f, "zipf:{exponent}:{ranks}")
            }
            Distribution::Normal => f.write_str("normal"),
            Distribution::Clusters { centres } => write!(f, "clusters:{centres}"),
            Distribution::Rmat { scale } => write!(f, "rmat:{scale}"),
            Distribution::Kronecker { scale } => write!(f, "kronecker:{scale}"),
            Distribution::Sorted => f.write_str("sorted"),
            Distribution::Reversed => f.write_str("reversed"),
            Distribution::Equal => f.write_str("equal"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn printed_distributions_are_read_back() {
        for text in [
            "uniform",
            "uniform:1000000",
            "exponential:0.5",
            "zipf:1.2",
            "zipf:0.6:77",
            "normal",
            "clusters:100",
            "rmat:23",
            "kronecker:23",
            "equal",
        ] {
            assert_eq!(text.parse::<Distribution>().unwrap().to_string(), text);
        }
    }
}
