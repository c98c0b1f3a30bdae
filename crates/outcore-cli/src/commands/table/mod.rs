//! Tables: what commands for several kinds of input do with Parquet and Arrow.
//!
//! Contract: each command turns its flags into a request of [`outcore_verbs::tables`], and reports
//! as the verbs do.

mod edges;

pub(crate) use outcore_front::result_tables::{
    has_columns, is_table_name, write_clusters, write_labels, write_near, write_rows, write_values,
};
pub(crate) use outcore_front::table_vectors::{rows_where, write_vectors};
pub(crate) use outcore_table::input::{check_not_read_again, is_several};

pub(crate) use edges::convert_edges;
