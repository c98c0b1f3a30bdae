//! The sales of a shop.
//!
//! Contract: as in [`super`]. Orders are in the order of their numbers; their times rise with the
//! numbers over two years. A few customers and products make most of the sales, and some sales have
//! no rating.

use std::ops::Range;
use std::sync::Arc;

use arrow_array::builder::{Float64Builder, Int64Builder, StringBuilder};
use arrow_array::{ArrayRef, Int64Array, TimestampMicrosecondArray};
use arrow_schema::{DataType, Field};
use outcore::Result;

use super::words::pick;
use super::{DAY_US, FROM_US, time_field};
use crate::random::{Draws, Stream, Zipf};

const DAYS: i64 = 730;
const COUNTRIES: [&str; 12] = [
    "Germany", "France", "Japan", "Brazil", "India", "Canada", "Spain", "Kenya", "Norway", "Chile",
    "Poland", "Vietnam",
];
const CATEGORIES: [&str; 6] = ["kitchen", "garden", "office", "sports", "toys", "books"];
const KINDS: [&str; 20] = [
    "lamp", "chair", "kettle", "rake", "pen", "ball", "puzzle", "atlas", "knife", "hose", "desk",
    "racket", "kite", "novel", "bowl", "spade", "folder", "bike", "robot", "guide",
];
const LOOKS: [&str; 20] = [
    "red", "small", "folding", "oak", "silver", "quiet", "solar", "blue", "heavy", "light",
    "classic", "steel", "green", "portable", "large", "smart", "white", "cotton", "glass", "black",
];
const PRODUCTS: u64 = (KINDS.len() * LOOKS.len()) as u64;

/// The sales; see the module.
#[derive(Debug)]
pub(super) struct Sales {
    stream: Stream,
    rows_count: u64,
    countries: Zipf,
    products: Zipf,
    customers: Zipf,
}

/// The columns.
pub(super) fn fields() -> Vec<Field> {
    vec![
        Field::new("id", DataType::Int64, false),
        time_field("time"),
        Field::new("customer", DataType::Int64, false),
        Field::new("country", DataType::Utf8, false),
        Field::new("category", DataType::Utf8, false),
        Field::new("product", DataType::Utf8, false),
        Field::new("quantity", DataType::Int64, false),
        Field::new("price", DataType::Float64, false),
        Field::new("rating", DataType::Int64, true),
    ]
}

impl Sales {
    pub(super) fn new(seed: u64, rows_count: u64) -> Result<Self> {
        Ok(Sales {
            stream: Stream::new(seed, 1),
            rows_count,
            countries: Zipf::new(0.8, COUNTRIES.len() as u64)?,
            products: Zipf::new(0.7, PRODUCTS)?,
            customers: Zipf::new(0.6, (rows_count / 10).max(1))?,
        })
    }

    pub(super) fn columns(&self, numbers: Range<u64>) -> Vec<ArrayRef> {
        let count = (numbers.end - numbers.start) as usize;
        let id = Int64Array::from_iter_values(numbers.clone().map(|number| number as i64 + 1));
        let time = numbers.clone().map(|number| self.time_us(number));
        let time = TimestampMicrosecondArray::from_iter_values(time);
        let mut customer = Int64Builder::with_capacity(count);
        let mut country = StringBuilder::with_capacity(count, count * 7);
        let mut category = StringBuilder::with_capacity(count, count * 7);
        let mut product = StringBuilder::with_capacity(count, count * 13);
        let mut quantity = Int64Builder::with_capacity(count);
        let mut price = Float64Builder::with_capacity(count);
        let mut rating = Int64Builder::with_capacity(count);
        for number in numbers {
            let mut draws = self.stream.draws(number);
            customer.append_value(100_000 + self.customers.rank(&mut draws) as i64);
            let place = self.countries.rank(&mut draws) as usize - 1;
            country.append_value(COUNTRIES[place]);
            let item = self.products.rank(&mut draws) - 1;
            category.append_value(CATEGORIES[item as usize % CATEGORIES.len()]);
            let kind = KINDS[item as usize % KINDS.len()];
            let look = LOOKS[item as usize / KINDS.len()];
            product.append_value(format!("{look} {kind}"));
            quantity.append_value(1 + (draws.below(10) * draws.below(10) / 10) as i64);
            price.append_value(price_of(item, &mut draws));
            rating.append_option(
                (draws.below(10) > 2).then(|| 5 - (draws.below(25) as f64).sqrt() as i64),
            );
        }
        vec![
            Arc::new(id),
            Arc::new(time),
            Arc::new(customer.finish()),
            Arc::new(country.finish()),
            Arc::new(category.finish()),
            Arc::new(product.finish()),
            Arc::new(quantity.finish()),
            Arc::new(price.finish()),
            Arc::new(rating.finish()),
        ]
    }

    /// Times rise with the numbers, evenly over the days.
    fn time_us(&self, number: u64) -> i64 {
        let whole_us = i128::from(DAYS * DAY_US);
        let passed_us = whole_us * i128::from(number) / i128::from(self.rows_count.max(1));
        FROM_US + passed_us as i64
    }
}

/// The price of a product after a discount of up to a fifth, in whole cents.
fn price_of(item: u64, draws: &mut Draws) -> f64 {
    let full_cents = 99 + (item * 7919) % 20_000;
    let discount = pick(&["0", "0", "0", "5", "10", "20"], draws);
    let percent = 100 - discount.parse::<u64>().unwrap_or(0);
    (full_cents * percent / 100) as f64 / 100.0
}
