//! Verdicts on pairs of prompts.
