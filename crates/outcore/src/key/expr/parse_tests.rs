//! Tests of the parser.
//!
//! Contract: trees are written out, so that a change of the grammar is visible.

use super::parse::{named, parse};
use super::tree::Expr;

fn shown(text: &str) -> String {
    fn list(values: &[Expr]) -> String {
        let values: Vec<String> = values.iter().map(show).collect();
        values.join(",")
    }
    fn show(expr: &Expr) -> String {
        match expr {
            Expr::Null => "null".to_string(),
            Expr::Int(value) => value.to_string(),
            Expr::Number(value) | Expr::Column(value) => value.clone(),
            Expr::Text(text) => format!("'{text}'"),
            Expr::Bool(value) => value.to_string(),
            Expr::Element(of, element) => format!("{}[{element}]", show(of)),
            Expr::Unary(operator, inner) => format!("({operator:?} {})", show(inner)),
            Expr::Binary(operator, a, b) => format!("({} {operator:?} {})", show(a), show(b)),
            Expr::IsNull(inner, is_so) => format!("(null {is_so} {})", show(inner)),
            Expr::In(inner, values, is_so) => {
                format!("({} in {is_so} {})", show(inner), list(values))
            }
            Expr::Between(between) => {
                let ends = [between.least.clone(), between.most.clone()];
                format!(
                    "({} {} {})",
                    show(&between.value),
                    between.is_so,
                    list(&ends)
                )
            }
            Expr::Case(case) => {
                let arms = case.arms.iter();
                let arms: Vec<String> = arms
                    .map(|arm| format!("{}:{}", show(&arm.condition), show(&arm.value)))
                    .collect();
                let end = |end: &Option<Expr>| end.as_ref().map_or(String::new(), show);
                format!(
                    "[{};{};{}]",
                    end(&case.of),
                    arms.join(","),
                    end(&case.otherwise)
                )
            }
            Expr::Call(function, values) => format!("{}({})", function.name(), list(values)),
            Expr::Cast(cast, value) => format!("{}({})", cast.name(), show(value)),
        }
    }
    show(&parse(text).unwrap())
}

#[test]
fn operators_bind_as_in_python() {
    for (text, wanted) in [
        ("1+2*x", "(1 Add (2 Multiply x))"),
        ("-x ** 2", "(Negate (x Power 2))"),
        ("2 ** 3 ** 2", "(2 Power (3 Power 2))"),
        ("2 ** -1", "(2 Power -1)"),
        ("a - b - c", "((a Subtract b) Subtract c)"),
        ("not x > 1 and y or z", "(((Not (x Greater 1)) And y) Or z)"),
        ("x & 3 == 1", "((x BitAnd 3) Equal 1)"),
        ("x >> 2 + 1", "(x ShiftRight (2 Add 1))"),
        ("orange or x", "(orange Or x)"),
        ("!(x != 0x1F)", "(Not (x NotEqual 31))"),
        ("max(x[2], 1e-3)", "max(x[2],1e-3)"),
        ("1_000 // pos.a", "(1000 FloorDivide pos.a)"),
        ("a <> b mod 2", "(a NotEqual (b Modulo 2))"),
        ("x = 1 and y = 2", "((x Equal 1) And (y Equal 2))"),
        ("- -x", "(Negate (Negate x))"),
        ("- -2.5", "2.5"),
    ] {
        assert_eq!(shown(text), wanted, "{text}");
    }
}

#[test]
fn tests_bind_as_comparisons_do() {
    for (text, wanted) in [
        (
            "a + 1 between b and c * 2 and d",
            "(((a Add 1) true b,(c Multiply 2)) And d)",
        ),
        ("a not between 1 and 2", "(a false 1,2)"),
        ("not a is null", "(Not (null true a))"),
        ("a is not null or b", "((null false a) Or b)"),
        ("a IN (1, 'x''y')", "(a in true 1,'x'y')"),
        ("a not in () and b", "((a in false ) And b)"),
        (
            "s like 'a%' or s not ilike t + 'b'",
            "(like(s,'a%') Or (Not ilike(s,(t Add 'b'))))",
        ),
    ] {
        assert_eq!(shown(text), wanted, "{text}");
    }
}

#[test]
fn words_are_columns_wherever_they_can_be_nothing_else() {
    for (text, wanted) in [
        ("case when a then 1 else 2 end", "[;a:1;2]"),
        (
            "case a when 1 then 'x' when 2 then 'y' end",
            "[a;1:'x',2:'y';]",
        ),
        ("case(a) when 1 then (b) else end end", "[a;1:b;end]"),
        (
            "CASE WHEN end > then THEN when ELSE else END",
            "[;(end Greater then):when;else]",
        ),
        ("case > between", "(case Greater between)"),
        ("case and like", "(case And like)"),
        ("case + 1", "(case Add 1)"),
        ("`null` + `a``b`.c.`d e`", "(null Add a`b.c.d e)"),
        ("date '2024-01-01' < mod", "(date('2024-01-01') Less mod)"),
    ] {
        assert_eq!(shown(text), wanted, "{text}");
    }
}

#[test]
fn what_makes_no_sense_is_named_with_its_place() {
    for text in [
        "",
        "1 +",
        "(x",
        "x x",
        "1 < x < 3",
        "f(1 2)",
        "x[",
        "3q",
        "x[-1]",
        "@",
        "x is",
        "x in 3",
        "x between 1",
        "case when x then",
        "case when x then 1",
        "'a",
        "`a",
        "x not 3",
        "null(",
        "x < 1 in (2)",
        "nothing(x)",
        "abs()",
        "where(x, 1)",
        "x.",
    ] {
        let error = parse(text).unwrap_err();
        assert_eq!(error.kind(), crate::Kind::Usage, "{text}");
        assert!(error.next_step().is_some(), "{text}");
    }
    let error = parse("x + )").unwrap_err();
    assert!(error.cause().contains("character 5"), "{error}");
}

#[test]
fn names_stand_before_what_is_computed_or_behind_as() {
    let named = named("a = b == 1, c as d, `x y` = 2, f + 1 as `g h`").unwrap();
    let names: Vec<&str> = named.iter().map(|named| named.name.as_str()).collect();
    assert_eq!(names, ["a", "d", "x y", "g h"]);
    let aliases: Vec<bool> = named.iter().map(|named| named.is_alias).collect();
    assert_eq!(aliases, [false, true, false, true]);
    for text in ["n * 2", "n == 2", "a = 1, b", "a as", "a = 1 as b", ""] {
        assert!(super::parse::named(text).is_err(), "{text}");
    }
}

#[test]
fn no_expression_exhausts_the_stack() {
    let many = 30_000;
    for text in [
        format!("x{}", "+x".repeat(many)),
        format!("x{}", " + x*2".repeat(many)),
        format!("x{}", "**x".repeat(many)),
        format!("x{}", " and x".repeat(many)),
        format!("{}x{}", "(".repeat(many), ")".repeat(many)),
        format!("{}x{}", "(".repeat(many), "+x)".repeat(many)),
        format!("{}x{}", "abs(".repeat(many), ")".repeat(many)),
        format!("max({}x)", "x,".repeat(many)),
        format!("x in ({}x)", "x,".repeat(many)),
        format!("{}x", "case when ".repeat(many)),
        format!("{}x", "x in (".repeat(many)),
        format!("{}x", "-".repeat(many)),
        format!("{}x", "~".repeat(many)),
        format!("{}x", "!".repeat(many)),
        format!("{}x", "not ".repeat(many)),
        "(".repeat(many),
    ] {
        let error = parse(&text).unwrap_err();
        let is_told = error.cause().contains("more than 1000 parts")
            || error.cause().contains("nested more than 128 deep");
        assert!(is_told, "{error}");
        assert!(error.to_string().len() < 400, "{error}");
        assert!(error.next_step().unwrap().contains("several steps"));
    }
    // A text within the limits can be parsed, walked and dropped.
    for text in [
        format!("x{}", "+x".repeat(999)),
        "x is null".to_string(),
        format!("{}x{}", "(".repeat(127), ")".repeat(127)),
        format!("{}x", "-".repeat(127)),
    ] {
        assert_eq!(parse(&text).unwrap(), parse(&text).unwrap().clone());
    }
}
