//! Files of vectors and what is computed on them, beside naive oracles in f64.

mod common;
mod files;
mod knn;
