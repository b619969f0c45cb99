#![expect(clippy::unwrap_used, reason = "tests")]

use std::collections::{BTreeMap, BTreeSet};

use super::{Behaviour, Change, Day, Field, Layout, Product, expected_differences, products};

fn by_path(day: Day) -> BTreeMap<&'static str, &'static Product> {
    products(day).iter().map(|product| (product.path.as_str(), product)).collect()
}

#[test]
fn the_list_is_long_and_without_doubles() {
    for day in [Day::First, Day::Second] {
        assert!(products(day).len() >= 42, "{} products on {day:?}", products(day).len());
        assert_eq!(by_path(day).len(), products(day).len(), "a path twice on {day:?}");
        let skus: BTreeSet<_> = products(day).iter().map(|product| &product.sku).collect();
        assert_eq!(skus.len(), products(day).len(), "a sku twice on {day:?}");
    }
}

#[test]
fn every_layout_and_every_fault_occurs() {
    let layouts: BTreeSet<_> = products(Day::Second).iter().map(|product| product.layout).collect();
    let all = [Layout::Classic, Layout::Table, Layout::Chinese, Layout::ChineseGbk, Layout::Modern, Layout::Relaunched];
    assert_eq!(layouts, BTreeSet::from(all));
    for fault in [
        Behaviour::Restructured,
        Behaviour::RateLimited,
        Behaviour::Slow,
        Behaviour::Gone,
        Behaviour::CutOff,
        Behaviour::UnavailableOnce,
    ] {
        let pages = products(Day::First).iter().filter(|product| product.behaviour == Some(fault)).count();
        assert_eq!(pages, 1, "pages that are {fault:?}");
    }
}

#[test]
fn prices_have_a_currency_and_two_decimals() {
    for product in products(Day::First).iter().chain(products(Day::Second)) {
        assert!(product.price.starts_with(['$', '€', '£', '￥']), "{}", product.price);
        let (_, decimals) = product.price.rsplit_once('.').unwrap();
        assert_eq!(decimals.len(), 2, "{}", product.price);
    }
}

/// Compares the two days field by field and gets exactly the list that the demonstration checks itself against.
#[test]
fn the_expected_differences_are_those_of_the_data() {
    let (first, second) = (by_path(Day::First), by_path(Day::Second));
    let mut found = BTreeSet::new();
    for path in first.keys().chain(second.keys()).copied().collect::<BTreeSet<_>>() {
        let before = first.get(path).filter(|product| product.is_sold_on(Day::First));
        let after = second.get(path).filter(|product| product.is_sold_on(Day::Second));
        match (before, after) {
            (None, Some(_)) => drop(found.insert(format!("{path}: {:?}", Change::Added))),
            (Some(_), None) => drop(found.insert(format!("{path}: {:?}", Change::Removed))),
            (Some(before), Some(after)) => {
                for field in [Field::Name, Field::Description, Field::Price, Field::Stock] {
                    let (before, after) = (before.field(field), after.field(field));
                    if before != after {
                        found.insert(format!("{path}: {:?}", Change::Changed { field, before, after }));
                    }
                }
            }
            (None, None) => panic!("{path} is sold on no day"),
        }
    }
    let expected: BTreeSet<_> = expected_differences()
        .iter()
        .map(|difference| format!("{}: {:?}", difference.path, difference.change))
        .collect();
    assert_eq!(found, expected);
    assert_eq!(expected.len(), expected_differences().len(), "an entry twice");
}

#[test]
fn the_differences_are_of_every_kind() {
    let count = |wanted: Field| {
        expected_differences()
            .iter()
            .filter(|difference| matches!(&difference.change, Change::Changed { field, .. } if *field == wanted))
            .count()
    };
    let counts = [Field::Price, Field::Stock, Field::Name, Field::Description].map(count);
    assert_eq!(counts, [8, 3, 1, 1]);
}
