//! The dependency graph and the list of tracked files, as cargo and git tell them.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::process::Command;

use serde_json::Value;

#[derive(Debug)]
pub(crate) struct Package {
    pub(crate) id: String,
    pub(crate) name: String,
    pub(crate) license: Option<String>,
    /// A member of this workspace.
    pub(crate) member: bool,
    /// Names of direct dependencies, as declared.
    pub(crate) normal: BTreeSet<String>,
    pub(crate) build: BTreeSet<String>,
    pub(crate) dev: BTreeSet<String>,
    /// Roots of its libraries and programs.
    pub(crate) roots: Vec<PathBuf>,
}

#[derive(Debug)]
pub(crate) struct Metadata {
    pub(crate) packages: Vec<Package>,
    /// Resolved edges by package id, without dev-dependencies.
    edges: BTreeMap<String, Vec<String>>,
}

impl Metadata {
    pub(crate) fn load() -> Self {
        let host = String::from_utf8(run("rustc", &["-vV"])).expect("rustc prints UTF-8");
        let host = host
            .lines()
            .find_map(|line| line.strip_prefix("host: "))
            .expect("rustc -vV has a host line")
            .to_owned();
        let json = run(
            "cargo",
            &["metadata", "--format-version", "1", "--locked", "--filter-platform", &host],
        );
        let json: Value = serde_json::from_slice(&json).expect("cargo metadata prints JSON");
        let members: BTreeSet<&str> = strings(&json["workspace_members"]).collect();
        let packages = array(&json["packages"]).map(|package| read(package, &members)).collect();
        let edges = array(&json["resolve"]["nodes"])
            .map(|node| (text(&node["id"]).to_owned(), linked(node)))
            .collect();
        Self { packages, edges }
    }

    pub(crate) fn members(&self) -> impl Iterator<Item = &Package> {
        self.packages.iter().filter(|package| package.member)
    }

    /// Names of all packages that `name` is built from, itself included.
    pub(crate) fn closure(&self, name: &str) -> BTreeSet<&str> {
        let names: BTreeMap<&str, &str> =
            self.packages.iter().map(|p| (p.id.as_str(), p.name.as_str())).collect();
        let start = self.members().find(|package| package.name == name).expect("a member's name");
        let mut seen = BTreeSet::from([start.id.as_str()]);
        let mut open = vec![start.id.as_str()];
        while let Some(id) = open.pop() {
            for next in self.edges.get(id).into_iter().flatten() {
                if seen.insert(next) {
                    open.push(next);
                }
            }
        }
        seen.iter().filter_map(|id| names.get(id).copied()).collect()
    }
}

fn read(package: &Value, members: &BTreeSet<&str>) -> Package {
    let kind = |wanted: &str| {
        array(&package["dependencies"])
            .filter(|dependency| dependency["kind"].as_str().unwrap_or("normal") == wanted)
            .map(|dependency| text(&dependency["name"]).to_owned())
            .collect()
    };
    let is_root = |target: &Value| {
        strings(&target["kind"]).any(|kind| matches!(kind, "lib" | "bin" | "proc-macro"))
    };
    Package {
        id: text(&package["id"]).to_owned(),
        name: text(&package["name"]).to_owned(),
        license: package["license"].as_str().map(str::to_owned),
        member: members.contains(text(&package["id"])),
        normal: kind("normal"),
        build: kind("build"),
        dev: kind("dev"),
        roots: array(&package["targets"])
            .filter(|target| is_root(target))
            .map(|target| PathBuf::from(text(&target["src_path"])))
            .collect(),
    }
}

/// Dependencies of a resolved node that are more than dev-dependencies.
fn linked(node: &Value) -> Vec<String> {
    array(&node["deps"])
        .filter(|dep| array(&dep["dep_kinds"]).any(|kind| kind["kind"].as_str() != Some("dev")))
        .map(|dep| text(&dep["pkg"]).to_owned())
        .collect()
}

pub(crate) fn root() -> PathBuf {
    let mut root = PathBuf::from(env!("CARGO_MANIFEST_DIR"));
    root.pop();
    root
}

/// Paths of all tracked files, relative to the root.
pub(crate) fn tracked_files() -> Vec<String> {
    let list = String::from_utf8(run("git", &["ls-files", "-z"])).expect("paths are UTF-8");
    let existing = |path: &&str| !path.is_empty() && root().join(path).is_file();
    list.split('\0').filter(existing).map(str::to_owned).collect()
}

fn run(program: &str, args: &[&str]) -> Vec<u8> {
    let done = Command::new(program)
        .args(args)
        .current_dir(root())
        .output()
        .unwrap_or_else(|error| panic!("cannot start {program}: {error}"));
    assert!(
        done.status.success(),
        "{program} {args:?} failed: {}",
        String::from_utf8_lossy(&done.stderr)
    );
    done.stdout
}

fn array(value: &Value) -> impl Iterator<Item = &Value> {
    value.as_array().into_iter().flatten()
}

fn strings(value: &Value) -> impl Iterator<Item = &str> {
    array(value).filter_map(Value::as_str)
}

fn text(value: &Value) -> &str {
    value.as_str().expect("a string in cargo's metadata")
}
