//! Elementwise work over the rows of a batch, spread over threads where that pays.
//!
//! Knows nothing of what is computed: each row is one call, so threads never show in results.

use super::kernels::memory::Shared;
use super::pool::Pool;

/// Below this many elements waking other threads costs more than the work.
const SERIAL_ELEMENTS: usize = 32 * 1024;
/// Elements per task: large enough to hide the claiming, small enough to balance.
const TASK_ELEMENTS: usize = 8 * 1024;

/// Calls `task(row, elements)` once for each row of `width` elements of `data`.
pub(super) fn for_rows(
    pool: &Pool,
    data: &mut [f32],
    width: usize,
    task: impl Fn(usize, &mut [f32]) + Sync,
) {
    if data.len() < SERIAL_ELEMENTS {
        data.chunks_exact_mut(width).enumerate().for_each(|(row, elements)| task(row, elements));
        return;
    }
    let rows = data.len() / width;
    let rows_per_task = (TASK_ELEMENTS / width).max(1);
    let shared = Shared::new(data);
    pool.run(rows.div_ceil(rows_per_task), &|index| {
        let first = index * rows_per_task;
        let end = (first + rows_per_task).min(rows);
        // SAFETY: each index names its own range of rows, and the pool runs each index once.
        let part = unsafe { shared.slice(first * width, (end - first) * width) };
        for (row, elements) in (first..end).zip(part.chunks_exact_mut(width)) {
            task(row, elements);
        }
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_row_is_visited_once_whatever_the_size() {
        let pool = Pool::new(3);
        for (rows, width) in [(1, 7), (3, 7), (5_000, 7), (2, 40_000), (33, 1_000), (0, 5)] {
            let mut data = vec![0.0; rows * width];
            for_rows(&pool, &mut data, width, |row, elements| {
                elements.iter_mut().for_each(|element| *element += row as f32 + 1.0);
            });
            for (row, elements) in data.chunks_exact(width).enumerate() {
                assert!(elements.iter().all(|&element| element == row as f32 + 1.0));
            }
        }
    }
}
