//! Threads that share the tasks of one parallel region at a time.
//!
//! A region costs about a microsecond while the workers still spin from the last one. Which thread
//! takes which task is chance; kernels make sure that it does not show in results.

use std::any::Any;
use std::cell::UnsafeCell;
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::thread::{self, JoinHandle, Thread};

use parking_lot::Mutex;

/// Rounds of `spin_loop` before a thread parks: some ten microseconds, about the serial stretch
/// between two regions of a decode step. Longer spinning starves other threads on small machines.
const SPIN_ROUNDS: u32 = 600;

/// Bits of the gate: `[generation | WAITING | OPEN | participants]`.
const PARTICIPANTS: u64 = 0xffff;
const OPEN: u64 = 1 << 16;
/// The caller parks until the last participant leaves.
const WAITING: u64 = 1 << 17;
const GENERATION: u64 = 1 << 32;

/// One parallel region; lives on the caller's stack.
struct Region<'a> {
    task: &'a (dyn Fn(usize) + Sync),
    tasks: usize,
    next: AtomicUsize,
    caller: Thread,
    panic: Mutex<Option<Box<dyn Any + Send>>>,
}

impl Region<'_> {
    /// Takes tasks until none is left. A panic ends the claiming for everyone.
    fn work(&self) {
        let outcome = catch_unwind(AssertUnwindSafe(|| {
            loop {
                let task = self.next.fetch_add(1, Ordering::Relaxed);
                if task >= self.tasks {
                    return;
                }
                (self.task)(task);
            }
        }));
        if let Err(payload) = outcome {
            self.next.store(self.tasks, Ordering::Relaxed);
            self.panic.lock().get_or_insert(payload);
        }
    }
}

struct Shared {
    gate: AtomicU64,
    /// Valid while the gate is open or has participants.
    region: UnsafeCell<*const Region<'static>>,
    asleep: Vec<AtomicBool>,
    stop: AtomicBool,
}

// SAFETY: `region` is written only by the thread that holds `Pool::busy`, while the gate is closed
// and empty, and read only by threads that entered the gate afterwards; the gate orders both.
// `Region` itself is shared by reference and all of its fields are `Sync`.
unsafe impl Sync for Shared {}
// SAFETY: the raw pointer is never dereferenced outside the protocol above.
unsafe impl Send for Shared {}

impl Shared {
    /// Joins the open region of another generation than `seen`; true when joined.
    fn enter(&self, seen: &mut u64) -> bool {
        let mut gate = self.gate.load(Ordering::SeqCst);
        loop {
            if gate & OPEN == 0 || gate / GENERATION == *seen {
                return false;
            }
            match self.gate.compare_exchange_weak(
                gate,
                gate + 1,
                Ordering::SeqCst,
                Ordering::SeqCst,
            ) {
                Ok(_) => {
                    *seen = gate / GENERATION;
                    return true;
                }
                Err(now) => gate = now,
            }
        }
    }

    fn serve(&self, me: usize) {
        let mut seen = 0;
        let mut idle = 0;
        while !self.stop.load(Ordering::SeqCst) {
            if self.enter(&mut seen) {
                // SAFETY: this thread is a participant, so the caller waits in `Pool::run` and the
                // region is alive.
                let region = unsafe { &**self.region.get() };
                region.work();
                let caller = region.caller.clone();
                let before = self.gate.fetch_sub(1, Ordering::SeqCst);
                if before & PARTICIPANTS == 1 && before & WAITING != 0 {
                    caller.unpark();
                }
                idle = 0;
            } else if idle < SPIN_ROUNDS {
                idle += 1;
                std::hint::spin_loop();
            } else {
                self.asleep[me].store(true, Ordering::SeqCst);
                let gate = self.gate.load(Ordering::SeqCst);
                let work = gate & OPEN != 0 && gate / GENERATION != seen;
                if !work && !self.stop.load(Ordering::SeqCst) {
                    thread::park();
                }
                self.asleep[me].store(false, Ordering::SeqCst);
                idle = 0;
            }
        }
    }

    fn wake(&self, workers: &[JoinHandle<()>]) {
        for (asleep, worker) in self.asleep.iter().zip(workers) {
            if asleep.load(Ordering::SeqCst) && asleep.swap(false, Ordering::SeqCst) {
                worker.thread().unpark();
            }
        }
    }
}

/// A fixed set of threads; the caller of [`Pool::run`] is one of them.
pub struct Pool {
    shared: Arc<Shared>,
    workers: Vec<JoinHandle<()>>,
    busy: AtomicBool,
    generation: AtomicU64,
}

impl Pool {
    /// Starts `threads - 1` workers. Where the system refuses a thread, the pool has fewer.
    pub fn new(threads: usize) -> Pool {
        let wanted = threads.clamp(1, 1024) - 1;
        let shared = Arc::new(Shared {
            gate: AtomicU64::new(0),
            region: UnsafeCell::new(std::ptr::null()),
            asleep: (0..wanted).map(|_| AtomicBool::new(false)).collect(),
            stop: AtomicBool::new(false),
        });
        let workers = (0..wanted)
            .map_while(|me| {
                let shared = Arc::clone(&shared);
                let name = format!("dynd-cpu-{}", me + 1);
                thread::Builder::new().name(name).spawn(move || shared.serve(me)).ok()
            })
            .collect();
        Pool { shared, workers, busy: AtomicBool::new(false), generation: AtomicU64::new(0) }
    }

    /// Threads that work on a region, the caller included.
    pub fn threads(&self) -> usize {
        self.workers.len() + 1
    }

    /// Calls `task` once with each of `0..tasks`, on any of the threads, and returns when all are
    /// done. A panic in a task stops the claiming of further tasks and is raised here.
    ///
    /// Called from inside a task, or while another thread uses the pool, it runs the tasks inline.
    pub fn run(&self, tasks: usize, task: &(dyn Fn(usize) + Sync)) {
        if tasks <= 1 || self.workers.is_empty() || self.busy.swap(true, Ordering::Acquire) {
            return (0..tasks).for_each(task);
        }
        let region = Region {
            task,
            tasks,
            next: AtomicUsize::new(0),
            caller: thread::current(),
            panic: Mutex::new(None),
        };
        self.share(&region);
        self.busy.store(false, Ordering::Release);
        if let Some(payload) = region.panic.into_inner() {
            resume_unwind(payload);
        }
    }

    /// Opens the gate for `region`, works, and returns once no worker can touch the region.
    fn share(&self, region: &Region<'_>) {
        let shared = &*self.shared;
        // SAFETY: the gate is closed and empty (the end of the last `share`), and `busy` keeps other
        // callers out. The lifetime is erased, but no worker holds the pointer after this returns.
        unsafe { *shared.region.get() = std::ptr::from_ref(region).cast() };
        // Never 0: that is what a fresh worker has seen.
        let generation = self.generation.fetch_add(1, Ordering::Relaxed) % 0xffff_fffe + 1;
        shared.gate.store((generation * GENERATION) | OPEN, Ordering::SeqCst);
        shared.wake(&self.workers);
        region.work();

        let mut gate = shared.gate.fetch_and(!OPEN, Ordering::SeqCst);
        let mut spins = 0;
        while gate & PARTICIPANTS != 0 {
            if spins < SPIN_ROUNDS {
                spins += 1;
                std::hint::spin_loop();
                gate = shared.gate.load(Ordering::SeqCst);
            } else {
                gate = shared.gate.fetch_or(WAITING, Ordering::SeqCst);
                if gate & PARTICIPANTS != 0 {
                    thread::park();
                    gate = shared.gate.load(Ordering::SeqCst);
                }
            }
        }
    }
}

impl Drop for Pool {
    /// Stops and joins the workers.
    fn drop(&mut self) {
        self.shared.stop.store(true, Ordering::SeqCst);
        for worker in self.workers.drain(..) {
            worker.thread().unpark();
            // Workers catch the panics of tasks and have no others.
            let _ = worker.join();
        }
    }
}

impl fmt::Debug for Pool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Pool").field("threads", &self.threads()).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn each_once(pool: &Pool, tasks: usize) {
        let counts: Vec<AtomicUsize> = (0..tasks).map(|_| AtomicUsize::new(0)).collect();
        pool.run(tasks, &|task| {
            counts[task].fetch_add(1, Ordering::Relaxed);
        });
        assert!(counts.iter().all(|count| count.load(Ordering::Relaxed) == 1));
    }

    #[test]
    fn every_task_runs_exactly_once_for_any_number_of_threads() {
        for threads in [0, 1, 2, 3, 8] {
            let pool = Pool::new(threads);
            for tasks in [0, 1, 2, 7, 100] {
                each_once(&pool, tasks);
            }
        }
    }

    #[test]
    fn many_small_regions_keep_their_results_apart() {
        let pool = Pool::new(4);
        for _ in 0..5_000 {
            each_once(&pool, 5);
        }
    }

    #[test]
    fn a_panic_reaches_the_caller_and_the_pool_stays_usable() {
        let pool = Pool::new(3);
        for panicking in [0, 7, 19] {
            let outcome = catch_unwind(AssertUnwindSafe(|| {
                pool.run(20, &|task| assert_ne!(task, panicking, "planted"));
            }));
            let payload = outcome.expect_err("the task panics");
            assert!(payload.downcast_ref::<String>().expect("a message").contains("planted"));
            each_once(&pool, 20);
        }
    }

    #[test]
    fn nested_and_concurrent_regions_complete() {
        let pool = Pool::new(2);
        let sum = AtomicUsize::new(0);
        pool.run(4, &|_| {
            pool.run(4, &|_| {
                sum.fetch_add(1, Ordering::Relaxed);
            });
        });
        assert_eq!(sum.load(Ordering::Relaxed), 16);
        thread::scope(|scope| {
            for _ in 0..3 {
                scope.spawn(|| (0..200).for_each(|_| each_once(&pool, 9)));
            }
        });
    }
}
