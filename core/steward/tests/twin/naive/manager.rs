//! One owner's side of the application control (C1 to C5): priorities, policies and the lists of
//! its blocks.

use pantler_steward::{Block, FileId, PolicyName};

/// A block in a manager's list.
#[derive(Clone, Copy, Debug)]
pub(super) struct Member {
    pub(super) block: Block,
    /// C5: greater the later it was put at an MRU end, smaller the later it was put at an LRU end.
    pub(super) stamp: i64,
    /// CLOCK: referenced since the hand last passed.
    pub(super) marked: bool,
    /// C3: in this list until its next reference only.
    pub(super) temporary: bool,
}

impl Member {
    pub(super) fn new(block: Block) -> Member {
        Member { block, stamp: 0, marked: false, temporary: false }
    }
}

/// One owner's side of the application control: priorities, policies, lists.
#[derive(Clone, Debug, Default)]
pub(super) struct Manager {
    pub(super) lists: Vec<(i32, Vec<Member>)>,
    pub(super) policies: Vec<(i32, PolicyName)>,
    pub(super) priorities: Vec<(FileId, i32)>,
    pub(super) newest: i64,
    pub(super) oldest: i64,
}

impl Manager {
    pub(super) fn policy(&self, priority: i32) -> PolicyName {
        self.policies.iter().find(|(p, _)| *p == priority).map_or(PolicyName::Lru, |(_, name)| *name)
    }

    pub(super) fn priority(&self, file: FileId) -> i32 {
        self.priorities.iter().find(|(f, _)| *f == file).map_or(0, |(_, priority)| *priority)
    }

    pub(super) fn list(&mut self, priority: i32) -> &mut Vec<Member> {
        let at = match self.lists.iter().position(|(p, _)| *p == priority) {
            Some(at) => at,
            None => {
                self.lists.push((priority, Vec::new()));
                self.lists.sort_by_key(|(p, _)| *p);
                self.lists.iter().position(|(p, _)| *p == priority).unwrap()
            }
        };
        &mut self.lists[at].1
    }

    /// Where the block is: priority of its list and place in it.
    pub(super) fn find(&self, block: Block) -> Option<(i32, usize)> {
        self.lists.iter().find_map(|(p, list)| list.iter().position(|m| m.block == block).map(|at| (*p, at)))
    }

    pub(super) fn member(&self, block: Block) -> Member {
        let (priority, at) = self.find(block).expect("an owned block is in its manager's lists");
        self.lists.iter().find(|(p, _)| *p == priority).unwrap().1[at]
    }

    pub(super) fn remove(&mut self, block: Block) -> Option<Member> {
        let (priority, at) = self.find(block)?;
        Some(self.list(priority).remove(at))
    }

    pub(super) fn put_mru(&mut self, priority: i32, member: Member) {
        self.newest += 1;
        let stamp = self.newest;
        self.list(priority).push(Member { stamp, ..member });
    }

    pub(super) fn put_lru(&mut self, priority: i32, member: Member) {
        self.oldest -= 1;
        let stamp = self.oldest;
        self.list(priority).insert(0, Member { stamp, ..member });
    }

    pub(super) fn new_block(&mut self, block: Block) {
        self.put_mru(self.priority(block.file), Member::new(block));
    }

    /// C3: a temporary priority ends, the block returns as most recently used. Else the policy of
    ///     its list decides.
    pub(super) fn block_accessed(&mut self, block: Block) {
        let (priority, at) = self.find(block).expect("an owned block is in its manager's lists");
        let member = self.member(block);
        if member.temporary {
            self.remove(block);
            self.put_mru(self.priority(block.file), Member::new(block));
            return;
        }
        match self.policy(priority) {
            PolicyName::Lru | PolicyName::Mru => {
                self.remove(block);
                self.put_mru(priority, Member { temporary: false, ..member });
            }
            PolicyName::Clock => self.list(priority)[at].marked = true,
            _ => {}
        }
    }

    /// C4: from the lowest priority that has an unpinned block, by its policy.
    pub(super) fn replace_block(&mut self, pinned: &dyn Fn(Block) -> bool) -> Option<Block> {
        let priorities: Vec<i32> = self.lists.iter().map(|(p, _)| *p).collect();
        for priority in priorities {
            if self.list(priority).iter().all(|m| pinned(m.block)) {
                continue;
            }
            return match self.policy(priority) {
                PolicyName::Mru => {
                    self.list(priority).iter().rev().find(|m| !pinned(m.block)).map(|m| m.block)
                }
                PolicyName::Clock => Some(self.walk(priority, pinned)),
                _ => self.list(priority).iter().find(|m| !pinned(m.block)).map(|m| m.block),
            };
        }
        None
    }

    /// The hand of CLOCK: marked blocks lose the mark and go to the MRU end, the first unmarked
    /// unpinned one is it.
    pub(super) fn walk(&mut self, priority: i32, pinned: &dyn Fn(Block) -> bool) -> Block {
        let mut at = 0;
        loop {
            // A pinned block keeps its mark and its place: it is still in use.
            let member = self.list(priority)[at];
            if pinned(member.block) {
                at += 1;
            } else if member.marked {
                self.list(priority).remove(at);
                self.put_mru(priority, Member { marked: false, ..member });
            } else {
                return member.block;
            }
        }
    }

    /// C5: the blocks enter the list where they are replaced later, in the order of their stamps.
    pub(super) fn move_group(&mut self, blocks: &[Block], priority: i32, temporary: bool) {
        let mut group: Vec<Member> = Vec::new();
        for &block in blocks {
            let (from, at) = self.find(block).expect("an owned block is in its manager's lists");
            if from == priority {
                self.list(priority)[at].temporary = temporary;
            } else {
                group.push(self.remove(block).unwrap());
            }
        }
        group.sort_by_key(|m| m.stamp);
        let moved = |m: &Member| Member { temporary, ..Member::new(m.block) };
        if self.policy(priority) == PolicyName::Mru {
            group.iter().rev().for_each(|m| self.put_lru(priority, moved(m)));
        } else {
            group.iter().for_each(|m| self.put_mru(priority, moved(m)));
        }
    }
}
