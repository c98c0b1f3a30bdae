//! Runs one list of expressions through both evaluators, of records and of tables.
//!
//! Contract: the list is that of the conformance kit. It has the result of each expression for rows
//! with the extremes of integers, NaN, infinities, both zeros and division by zero. If only one
//! evaluator returns values, the error of the other has a hint.

use std::collections::HashSet;
use std::sync::Arc;

use arrow_array::{ArrayRef, Float64Array, Int64Array, RecordBatch, UInt64Array};
use arrow_cast::display::array_value_to_string;
use arrow_schema::DataType;
use outcore::key::NumberType;
use outcore::key::expr::{ColumnType, Expr, FUNCTIONS, Program, Rows, Schema};
use outcore::{Kind, Result};
use outcore_table::expr::Expr as TableExpr;

use self::list::{A, B, N, X, Y, lines};

#[path = "../../../outcore/tests/conformance/expressions.rs"]
mod list;

/// The results of records.
fn of_records(text: &str) -> Result<Vec<String>> {
    let (i64, f64, u64) = (NumberType::I64, NumberType::F64, NumberType::U64);
    let schema = Schema::of_columns(&[("a", i64), ("b", i64), ("x", f64), ("y", f64), ("n", u64)]);
    let program = Program::compile(&text.parse::<Expr>()?, &schema)?;
    let bytes = [
        A.map(i64::to_ne_bytes).concat(),
        B.map(i64::to_ne_bytes).concat(),
        X.map(f64::to_ne_bytes).concat(),
        Y.map(f64::to_ne_bytes).concat(),
        N.map(u64::to_ne_bytes).concat(),
    ];
    let inputs: Vec<&[u8]> = bytes.iter().map(Vec::as_slice).collect();
    let rows = Rows {
        first: 0,
        count: A.len(),
        inputs: &inputs,
    };
    let mut space = program.space();
    let column = program.run(&mut space, &rows)?;
    let values = column.bytes.chunks_exact(column.kind.bytes());
    Ok(values.map(|value| shown(column.kind, value)).collect())
}

fn shown(kind: ColumnType, value: &[u8]) -> String {
    let mut wide = [0; 8];
    wide[..value.len()].copy_from_slice(value);
    let number = match kind {
        ColumnType::Bool => return (value[0] != 0).to_string(),
        ColumnType::Number(number) => number,
    };
    match number {
        NumberType::F64 => format!("{:?}", f64::from_ne_bytes(wide)),
        number if number.is_signed_integer() => {
            let unused = 64 - 8 * value.len();
            (i64::from_ne_bytes(wide) << unused >> unused).to_string()
        }
        _ => u64::from_ne_bytes(wide).to_string(),
    }
}

/// The results of a table.
fn of_table(text: &str) -> Result<Vec<String>> {
    let columns: [(&str, ArrayRef); 5] = [
        ("a", Arc::new(Int64Array::from(A.to_vec()))),
        ("b", Arc::new(Int64Array::from(B.to_vec()))),
        ("x", Arc::new(Float64Array::from(X.to_vec()))),
        ("y", Arc::new(Float64Array::from(Y.to_vec()))),
        ("n", Arc::new(UInt64Array::from(N.to_vec()))),
    ];
    let batch = RecordBatch::try_from_iter(columns).unwrap();
    let expr = TableExpr::parse(text)?;
    let kind = expr.check(&batch.schema())?;
    let found = expr.evaluate(&batch)?;
    assert_eq!(*found.data_type(), kind, "{text}");
    let floats = arrow_cast::cast(&found, &DataType::Float64);
    let shown = |row: usize| match kind {
        _ if arrow_array::Array::is_null(&*found, row) || kind == DataType::Null => {
            "null".to_owned()
        }
        DataType::Float64 => {
            let floats = floats.as_ref().unwrap();
            let floats =
                arrow_array::cast::AsArray::as_primitive::<arrow_array::types::Float64Type>(floats);
            format!("{:?}", floats.value(row))
        }
        _ => array_value_to_string(&found, row).unwrap(),
    };
    Ok((0..A.len()).map(shown).collect())
}

#[test]
fn records_and_tables_give_the_same_values_or_an_error_with_a_hint() {
    let mut wrong = Vec::new();
    for line in lines() {
        let found = [
            ("records", of_records(&line.text), &line.records_fail),
            ("tables", of_table(&line.text), &line.tables_fail),
        ];
        for (who, found, fails) in found {
            let is_right = match (&found, fails) {
                (Ok(values), None) => *values == line.expected,
                (Err(error), Some(cause)) => {
                    error.kind() == Kind::Usage
                        && error.cause().contains(cause)
                        && error.next_step().is_some()
                }
                _ => false,
            };
            if !is_right {
                let found = match found {
                    Ok(values) => values.join(" "),
                    Err(error) => error.to_string(),
                };
                wrong.push(format!("{who}: {} gives {found}", line.text));
            }
        }
    }
    assert!(wrong.is_empty(), "\n{}", wrong.join("\n"));
}

#[test]
fn each_function_is_in_the_list_of_expressions() {
    let mut called = HashSet::new();
    for line in lines() {
        if let Ok(expr) = line.text.parse::<Expr>() {
            expr.visit(&mut |part| {
                if let Expr::Call(function, _) = part {
                    called.insert(function.name());
                }
            });
        }
    }
    let missing = FUNCTIONS.iter().map(|entry| entry.names[0]);
    let missing: Vec<&str> = missing.filter(|name| !called.contains(name)).collect();
    assert!(missing.is_empty(), "{missing:?}");
}
