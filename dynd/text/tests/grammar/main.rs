//! What random choices among the allowed tokens can write: JSON that follows its schema, and calls
//! that the parser of the same format reads back.

mod budget;
mod calls;
mod limits;
mod schemas;
mod validate;
mod walk;
