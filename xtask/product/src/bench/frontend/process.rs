//! What the processes of a server have used, as Linux tells it.

use std::fs;
use std::time::Duration;

use anyhow::Context;

/// The processes that make up one server.
#[derive(Debug, Clone)]
pub(super) struct Processes(pub(super) Vec<u32>);

impl Processes {
    /// Processor time so far, of all threads that ever ran.
    pub(super) fn cpu(&self) -> anyhow::Result<Duration> {
        let mut ticks = 0;
        for pid in &self.0 {
            let text = read(*pid, "stat")?;
            // The name, in parentheses, may hold spaces.
            let (_, fields) = text.rsplit_once(')').context("stat without a name")?;
            let fields: Vec<&str> = fields.split_whitespace().collect();
            for at in [11, 12] {
                ticks += fields.get(at).context("stat is too short")?.parse::<u64>()?;
            }
        }
        // Linux counts these in hundredths of a second, whatever its own timer does.
        Ok(Duration::from_millis(ticks * 10))
    }

    /// Memory that is resident now.
    pub(super) fn resident_mib(&self) -> anyhow::Result<f64> {
        let mut kib = 0.0;
        for pid in &self.0 {
            let text = read(*pid, "status")?;
            let line = text.lines().find_map(|line| line.strip_prefix("VmRSS:"));
            let number = line.and_then(|line| line.split_whitespace().next());
            kib += number.context("status without VmRSS")?.parse::<f64>()?;
        }
        Ok(kib / 1024.0)
    }
}

fn read(pid: u32, file: &str) -> anyhow::Result<String> {
    let path = format!("/proc/{pid}/{file}");
    fs::read_to_string(&path).context(path)
}
