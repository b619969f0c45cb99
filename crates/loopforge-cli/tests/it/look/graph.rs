//! `graph`.

use std::collections::BTreeSet;

use super::Place;

#[test]
fn a_run_is_drawn_in_all_formats() {
    let place = Place::with_small_run();
    for format in ["tree", "mermaid", "dot"] {
        let said = place.loopforge(&["graph", "--format", format]);
        insta::assert_snapshot!(format!("graph_{format}"), place.masked(&said.out));
    }
}

#[test]
fn every_edge_joins_nodes_that_are_there() {
    let place = Place::with_small_run();
    let graph = place.loopforge(&["graph", "--format", "json"]).json();
    assert_eq!(place.loopforge(&["graph", "--json"]).json(), graph);
    let nodes: BTreeSet<&str> =
        graph["nodes"].as_array().unwrap().iter().map(|node| node["id"].as_str().unwrap()).collect();
    assert_eq!(nodes.len(), graph["nodes"].as_array().unwrap().len(), "two nodes have one id");
    for edge in graph["edges"].as_array().unwrap() {
        for end in ["from", "to"] {
            assert!(nodes.contains(edge[end].as_str().unwrap()), "{edge}");
        }
    }
    for id in ["subgoal:greet", "item:greet/1", "step:2", "action:2.0"] {
        assert!(nodes.contains(id), "{id}");
    }
}

#[test]
fn many_items_are_counted_unless_all_are_asked_for() {
    let place = Place::new();
    let items: Vec<String> = (0..100).map(|item| item.to_string()).collect();
    place.write(
        "task.yaml",
        &format!(
            r#"
name: many
goal: Count.
inputs:
  items: {{ value: [{}] }}
subgoals:
  - id: count
    foreach: {{ in: inputs.items, as: item }}
    steps:
      - set: {{ latest: "${{ item }}" }}
loop: {{ max_steps: 200 }}
"#,
            items.join(", ")
        ),
    );
    let said = place.loopforge(&["run", "task.yaml"]);
    assert_eq!(said.code, 0, "{said:?}");
    for format in ["tree", "mermaid", "dot"] {
        let few = place.loopforge(&["graph", "--format", format]).out;
        assert!(few.contains("and 40 more items: 40 done"), "{few}");
        assert!(few.contains("[59] 59") && !few.contains("[60] 60"), "{few}");
        let all = place.loopforge(&["graph", "--format", format, "--all"]).out;
        assert!(all.contains("[99] 99") && !all.contains("more items"), "{all}");
    }
}
