//! What an expression reads: its free names, the keys of inputs and state, the functions that it calls.

use std::collections::BTreeSet;
use std::sync::Arc;

use cel::common::ast::{EntryExpr, Expr, IdedExpr, LiteralValue};

use super::{ENVIRONMENT, Keys};

/// A function as an expression calls it.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Call {
    pub(super) name: String,
    /// `value.name()`, not `name(value)`.
    pub(super) member: bool,
}

impl Call {
    /// Asks by a call that fits no function of that name, because the library has no list of its functions: a name that exists
    /// is answered by another error than one that doesn't.
    pub(super) fn exists(&self) -> bool {
        let probe = if self.member { format!("dyn(null).{}()", self.name) } else { format!("{}()", self.name) };
        let Ok(program) = ENVIRONMENT.compile(&probe) else { return true };
        let context = cel::Context::with_env(Arc::clone(&ENVIRONMENT));
        !matches!(program.execute(&context), Err(cel::ExecutionError::UndeclaredReference(_)))
    }
}

/// The first parts of names such as `math.ceil`.
const NAMESPACES: &[&str] = &["math", "lists", "strings", "optional"];

/// Finds what an expression reads and calls.
#[derive(Default)]
pub(super) struct Walk {
    pub(super) bound: Vec<String>,
    pub(super) names: BTreeSet<String>,
    pub(super) paths: BTreeSet<Vec<String>>,
    pub(super) calls: BTreeSet<Call>,
    pub(super) inputs: Keys,
    pub(super) state: Keys,
}

impl Walk {
    pub(super) fn expression(&mut self, node: &IdedExpr) {
        if let Some(path) = static_path(node) {
            return self.path(path);
        }
        match &node.expr {
            Expr::Ident(_) => {}
            Expr::Select(select) => self.expression(&select.operand),
            Expr::Call(call) => {
                match call.target.as_deref() {
                    Some(IdedExpr { expr: Expr::Ident(name), .. }) if self.is_namespace(name, &call.func_name) => {}
                    Some(target) => {
                        self.expression(target);
                        self.call(&call.func_name, true);
                    }
                    None => self.call(&call.func_name, false),
                }
                for argument in &call.args {
                    self.expression(argument);
                }
            }
            Expr::Comprehension(comprehension) => {
                self.expression(&comprehension.iter_range);
                self.expression(&comprehension.accu_init);
                let outer = self.bound.len();
                self.bound.push(comprehension.iter_var.clone());
                self.bound.extend(comprehension.iter_var2.clone());
                self.bound.push(comprehension.accu_var.clone());
                self.expression(&comprehension.loop_cond);
                self.expression(&comprehension.loop_step);
                self.expression(&comprehension.result);
                self.bound.truncate(outer);
            }
            Expr::List(list) => list.elements.iter().for_each(|element| self.expression(element)),
            Expr::Map(map) => map.entries.iter().for_each(|entry| self.entry(&entry.expr)),
            Expr::Struct(fields) => fields.entries.iter().for_each(|entry| self.entry(&entry.expr)),
            Expr::Literal(_) | Expr::Unspecified => {}
        }
    }

    pub(super) fn entry(&mut self, entry: &EntryExpr) {
        match entry {
            EntryExpr::MapEntry(entry) => {
                self.expression(&entry.key);
                self.expression(&entry.value);
            }
            EntryExpr::StructField(field) => self.expression(&field.value),
        }
    }

    pub(super) fn is_namespace(&self, name: &str, function: &str) -> bool {
        NAMESPACES.contains(&name)
            && !self.bound.iter().any(|bound| bound == name)
            && Call { name: format!("{name}.{function}"), member: false }.exists()
    }

    /// Operators are calls too, under names that nobody can write.
    pub(super) fn call(&mut self, name: &str, member: bool) {
        if name.starts_with(|first: char| first.is_ascii_alphabetic()) {
            self.calls.insert(Call { name: name.to_owned(), member });
        }
    }

    pub(super) fn path(&mut self, path: Vec<String>) {
        let Some((name, fields)) = path.split_first() else { return };
        if self.bound.contains(name) {
            return;
        }
        self.names.insert(name.clone());
        let keys = match name.as_str() {
            "inputs" => Some(&mut self.inputs),
            "state" => Some(&mut self.state),
            _ => None,
        };
        if let Some(keys) = keys {
            match fields.first() {
                Some(key) => {
                    keys.named.insert(key.clone());
                }
                None => keys.all = true,
            }
        }
        self.paths.insert(path);
    }
}

/// How deep brackets nest, and how many operators, dots and brackets there are outside of texts.
pub(super) fn brackets_and_signs(source: &str) -> (usize, usize) {
    let (mut open, mut deepest, mut signs) = (0_usize, 0, 0);
    let mut quote = None;
    let mut escaped = false;
    for character in source.chars() {
        match (quote, character) {
            (Some(_), _) if escaped => escaped = false,
            (Some(_), '\\') => escaped = true,
            (Some(begin), _) => quote = (character != begin).then_some(begin),
            (None, '"' | '\'') => quote = Some(character),
            (None, '(' | '[' | '{') => {
                open += 1;
                signs += 1;
            }
            (None, ')' | ']' | '}') => open = open.saturating_sub(1),
            (None, ',' | '_') => {}
            (None, other) if other.is_ascii_punctuation() => signs += 1,
            (None, _) => {}
        }
        deepest = deepest.max(open);
    }
    (deepest, signs)
}

/// Whether an expression has at most `depth` levels.
pub(super) fn is_within(node: &IdedExpr, depth: usize) -> bool {
    let Some(left) = depth.checked_sub(1) else { return false };
    let entry = |entry: &EntryExpr| match entry {
        EntryExpr::MapEntry(entry) => is_within(&entry.key, left) && is_within(&entry.value, left),
        EntryExpr::StructField(field) => is_within(&field.value, left),
    };
    match &node.expr {
        Expr::Ident(_) | Expr::Literal(_) | Expr::Unspecified => true,
        Expr::Select(select) => is_within(&select.operand, left),
        Expr::Call(call) => {
            call.target.iter().all(|target| is_within(target, left))
                && call.args.iter().all(|argument| is_within(argument, left))
        }
        Expr::Comprehension(part) => {
            [&part.iter_range, &part.accu_init, &part.loop_cond, &part.loop_step, &part.result]
                .into_iter()
                .all(|part| is_within(part, left))
        }
        Expr::List(list) => list.elements.iter().all(|element| is_within(element, left)),
        Expr::Map(map) => map.entries.iter().all(|part| entry(&part.expr)),
        Expr::Struct(fields) => fields.entries.iter().all(|part| entry(&part.expr)),
    }
}

/// A name and the fields after it, where all of them are written out. `state["key"]` reads that key only, as `state.key` does.
pub(super) fn static_path(node: &IdedExpr) -> Option<Vec<String>> {
    let (base, field) = match &node.expr {
        Expr::Ident(name) => return Some(vec![name.clone()]),
        Expr::Select(select) => (select.operand.as_ref(), select.field.clone()),
        Expr::Call(call) if call.func_name == "_[_]" => match call.args.as_slice() {
            [base, IdedExpr { expr: Expr::Literal(LiteralValue::String(key)), .. }] => (base, key.inner().to_owned()),
            _ => return None,
        },
        _ => return None,
    };
    let mut path = static_path(base)?;
    path.push(field);
    Some(path)
}

pub(super) fn plain_path(node: &IdedExpr) -> Option<Vec<String>> {
    match &node.expr {
        Expr::Ident(name) => Some(vec![name.clone()]),
        Expr::Select(select) if !select.test => {
            let mut path = plain_path(&select.operand)?;
            path.push(select.field.clone());
            Some(path)
        }
        _ => None,
    }
}

/// The character of the whole text at a line and column of it, each from 1.
pub(super) fn column(source: &str, (line, column): (isize, isize)) -> usize {
    let lines_before = usize::try_from(line.saturating_sub(1)).unwrap_or(0);
    let before: usize = source.split_inclusive('\n').take(lines_before).map(|line| line.chars().count()).sum();
    before + usize::try_from(column).unwrap_or(1).max(1)
}
