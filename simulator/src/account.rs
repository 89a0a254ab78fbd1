//! Device memory as actions take it and give it back.

use schema::BufferId;

use crate::Program;

/// The sum of live buffers while a program's actions start and end, whoever says when: a replay or
/// a device. A buffer comes to be when the action starts that writes it, and dies when the last
/// action has ended that uses it.
#[derive(Debug, Clone, Default)]
pub struct Account {
    /// Lanes that have not used a buffer for the last time.
    users: Vec<u32>,
    live: u64,
    peak: u64,
}

impl Account {
    /// The account before the first action.
    pub fn of(program: &Program) -> Self {
        let mut account = Self::default();
        account.begin(program);
        account
    }

    /// Begins anew, without allocating where the program is the same.
    pub fn begin(&mut self, program: &Program) {
        self.users.clear();
        self.users.extend_from_slice(&program.users);
        self.live = program.at_start;
        self.peak = self.live;
    }

    /// An action starts: what it writes comes to be.
    #[inline]
    pub fn starts(&mut self, program: &Program, action: u32) {
        self.live += program.allocates[action as usize];
        self.peak = self.peak.max(self.live);
    }

    /// An action ends: what it was the last to use dies.
    #[inline]
    pub fn ends(&mut self, program: &Program, action: u32, mut dies: impl FnMut(BufferId)) {
        for buffer in program.last_uses.get(action as usize) {
            let users = &mut self.users[*buffer as usize];
            *users -= 1;
            if *users == 0 {
                self.live -= program.gives_back[*buffer as usize];
                dies(BufferId(*buffer));
            }
        }
    }

    /// Sum of live buffers now, in bytes.
    pub fn live(&self) -> u64 {
        self.live
    }

    /// Largest sum of live buffers so far, in bytes.
    pub fn peak(&self) -> u64 {
        self.peak
    }
}
