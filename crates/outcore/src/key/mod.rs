//! The meaning of bytes: records and their keys, the total order, file headers, checks.
//!
//! Contract: nothing here does I/O or spawns threads. Every item is a pure function of its
//! arguments, or a small value that is built once per job and is then read-only. [`record`] defines
//! where a record's keys are. [`order`] turns keys into machine words with the wanted unsigned
//! order, and [`scalar`] does the same in place for records that are one number.
//!
//! | file | contents |
//! |---|---|
//! | [`record`] | number types, key fields, [`RecordFormat`] and its text form |
//! | [`order`] | [`Order`]: the total order as 8-byte words |
//! | [`scalar`] | [`ScalarOrder`]: scalars to native unsigned integers and back |
//! | `whole` | records of 16 bytes to native unsigned integers and back |
//! | `byte_order` | rearranges the bytes of such records |
//! | [`npy`] | [`NpyHeader`]: headers of NumPy files |
//! | [`encode`] | building blocks of text keys: escaped strings, decimal numbers, complements |
//! | [`sort_key`] | [`SortKey`]: every order as bytes that compare as unsigned |
//! | [`expr`] | [`Expr`](expr::Expr): expressions over the numbers of a record |
//! | [`column`] | the notation for column names |
//! | [`check`] | [`Checker`]: order, duplicates and checksum of a stream |

mod byte_order;
pub mod check;
pub mod column;
mod dtype;
pub mod encode;
pub mod expr;
mod literal;
mod normal;
mod notation;
pub mod npy;
pub mod order;
pub mod record;
pub mod scalar;
pub mod sort_key;
pub(crate) mod whole;
mod word;

pub use check::{CheckOptions, CheckReport, Checker};
pub use dtype::NpyField;
pub use npy::{NpyArray, NpyHeader};
pub use order::{Order, OrderOptions};
pub use record::{Endian, KeyField, KeyKind, Number, NumberType, RecordFormat};
pub use sort_key::{ByteOrder, NoKey, SharedKey, SortKey, Tie, compare_items};
