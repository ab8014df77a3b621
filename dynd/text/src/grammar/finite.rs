//! Schemas that refer to themselves: which of them have a finite value, and the same schema without
//! the parts that have none. It says so only where it is certain; what else makes a schema
//! impossible is for the compiler.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Map, Value};

/// Passes over all references. Each pass settles a chain of them in either direction, so that more
/// are needed only where chains cross; what is not settled then counts as finite.
const PASSES_MAX: usize = 64;
const REF: &str = "$ref";
/// Keys whose value is an object of schemas.
const MAPS: [&str; 4] = ["properties", "patternProperties", "$defs", "definitions"];
/// Keys whose value is a list of schemas.
const LISTS: [&str; 5] = ["anyOf", "oneOf", "allOf", "prefixItems", "items"];
/// Keys whose value is a schema.
const SINGLE: [&str; 2] = ["items", "additionalProperties"];

/// Makes parts of `schema` that no finite value fits `false`; false when the whole is such a part.
pub(super) fn prune(schema: &mut Value) -> bool {
    let names = references(schema);
    if names.is_empty() {
        return true;
    }
    let finite = Finite::of(schema, &names);
    let is_finite = finite.fits(schema);
    let endless: Vec<String> =
        finite.0.into_iter().filter(|(_, is_finite)| !is_finite).map(|(name, _)| name).collect();
    if is_finite && !endless.is_empty() {
        cut(schema, &endless);
    }
    is_finite
}

/// Replaces what each reference within `schema` refers to.
pub(super) fn redirect(schema: &mut Value, to: &dyn Fn(&str) -> Option<String>) {
    if let Some(Value::String(name)) = schema.get_mut(REF)
        && let Some(other) = to(name)
    {
        *name = other;
    }
    each(schema, &mut |part| redirect(part, to));
}

/// By reference within the schema: whether what it refers to is known to have a finite value.
struct Finite(BTreeMap<String, bool>);

impl Finite {
    fn of(schema: &Value, names: &BTreeSet<String>) -> Self {
        let targets: Vec<(&String, Option<&Value>)> = names
            .iter()
            .map(|name| (name, name.strip_prefix('#').and_then(|path| schema.pointer(path))))
            .collect();
        // What cannot be found here is for the compiler to judge.
        let known = targets.iter().map(|(name, target)| ((*name).clone(), target.is_none()));
        let mut finite = Finite(known.collect());
        for pass in 0..=PASSES_MAX {
            let mut has_changed = false;
            let mut settle = |(name, target): &(&String, Option<&Value>)| {
                let is_finite = pass == PASSES_MAX || target.is_none_or(|part| finite.fits(part));
                if is_finite && finite.0.insert((*name).clone(), true) == Some(false) {
                    has_changed = true;
                }
            };
            targets.iter().for_each(&mut settle);
            targets.iter().rev().for_each(&mut settle);
            if !has_changed {
                break;
            }
        }
        finite
    }

    /// Whether a finite value may fit `schema`, as far as its references are known.
    fn fits(&self, schema: &Value) -> bool {
        let keys = match schema {
            Value::Object(keys) => keys,
            other => return *other != Value::Bool(false),
        };
        let list = |key: &str| keys.get(key).and_then(Value::as_array);
        let refers = keys.get(REF).and_then(Value::as_str);
        refers.is_none_or(|name| self.0.get(name) != Some(&false))
            && list("allOf").is_none_or(|parts| parts.iter().all(|part| self.fits(part)))
            && ["anyOf", "oneOf"].iter().all(|key| {
                list(key).is_none_or(|parts| {
                    parts.is_empty() || parts.iter().any(|part| self.fits(part))
                })
            })
            && match keys.get("type").and_then(Value::as_str) {
                Some("object") => self.fits_required(keys),
                Some("array") => self.fits_items(keys),
                _ => true,
            }
    }

    /// Whether an object's required properties may have finite values.
    fn fits_required(&self, keys: &Map<String, Value>) -> bool {
        let required = keys.get("required").and_then(Value::as_array);
        let mut names = required.into_iter().flatten().filter_map(Value::as_str);
        let any_name = match keys.contains_key("patternProperties") {
            true => None,
            false => keys.get("additionalProperties"),
        };
        names.all(|name| {
            let listed = keys.get("properties").and_then(|listed| listed.get(name));
            listed.or(any_name).is_none_or(|part| self.fits(part))
        })
    }

    /// Whether an array's least number of items may be finite.
    fn fits_items(&self, keys: &Map<String, Value>) -> bool {
        let least = keys.get("minItems").and_then(Value::as_u64).unwrap_or(0);
        let least = usize::try_from(least).unwrap_or(usize::MAX);
        let first = keys.get("prefixItems").or_else(|| keys.get("items")).and_then(Value::as_array);
        let first = first.map_or(&[][..], Vec::as_slice);
        let rest = keys.get("items").filter(|items| least > first.len() && !items.is_array());
        first.iter().take(least).chain(rest).all(|part| self.fits(part))
    }
}

/// What the schemas within `schema` refer to, sorted.
pub(super) fn references(schema: &mut Value) -> BTreeSet<String> {
    let names = RefCell::new(BTreeSet::new());
    redirect(schema, &|name| {
        names.borrow_mut().insert(name.to_owned());
        None
    });
    names.into_inner()
}

/// Makes each part that refers to one of `endless`, which are sorted, `false`.
fn cut(schema: &mut Value, endless: &[String]) {
    let name = schema.get(REF).and_then(Value::as_str);
    if name
        .is_some_and(|name| endless.binary_search_by(|endless| endless.as_str().cmp(name)).is_ok())
    {
        *schema = Value::Bool(false);
    } else {
        each(schema, &mut |part| cut(part, endless));
    }
}

/// The schemas right within a schema.
fn each(schema: &mut Value, see: &mut dyn FnMut(&mut Value)) {
    let Value::Object(keys) = schema else { return };
    for (key, value) in keys {
        match value {
            Value::Object(parts) if MAPS.contains(&key.as_str()) => {
                parts.values_mut().for_each(&mut *see);
            }
            Value::Array(parts) if LISTS.contains(&key.as_str()) => {
                parts.iter_mut().for_each(&mut *see);
            }
            Value::Object(_) if SINGLE.contains(&key.as_str()) => see(value),
            _ => {}
        }
    }
}
