//! Prompts: what is canonical, where classes lie, what keeps its ids.

mod canonical;
mod classes;
mod echo;
mod families;
mod forging;
mod incremental;
mod support;
