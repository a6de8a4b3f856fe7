//! What a steward knows, as counters and decisions that can be asked for: for every body alike.

use std::collections::BTreeMap;

use pantler_steward::{Block, Decision, FileId, OwnerId, Rule, Steward};

use super::{DecisionLine, Holder, OwnerStat, PrefetchStat, PriorityStat, TAKINGS_SHOWN, TakingStat};

/// What a body knows of an owner.
#[derive(Debug, Clone)]
pub struct KnownOwner {
    /// Name for people.
    pub name: String,
    /// Its user.
    pub uid: Option<u32>,
    /// A process of it.
    pub pid: Option<u32>,
    /// False once it ended.
    pub live: bool,
}

impl From<KnownOwner> for OwnerStat {
    /// An owner of which nothing was counted.
    fn from(KnownOwner { name, uid, pid, live }: KnownOwner) -> Self {
        Self { owner: name, uid, pid, live, ..Self::default() }
    }
}

impl OwnerStat {
    /// The owners that `known` knows, by name; it is asked for `None` for the common one. Programs
    /// have a row where several owners read the same blocks of theirs.
    pub fn all(steward: &Steward, known: impl Fn(Option<OwnerId>) -> Option<KnownOwner>) -> Vec<Self> {
        let stat = |stat: pantler_steward::OwnerStat| {
            let levels = stat.id.into_iter().flat_map(|id| steward.priorities(id));
            let priorities = levels.map(|level| PriorityStat {
                priority: level.priority,
                policy: level.policy,
                blocks: u64::from(level.blocks),
            });
            let is_program = stat.id.is_some_and(|id| steward.is_program(id));
            Some(Self {
                control: stat.in_control && !stat.revoked && !is_program,
                revoked: stat.revoked,
                counters: stat.counters,
                priorities: priorities.collect(),
                ..known(stat.id)?.into()
            })
        };
        let mut all: Vec<Self> =
            steward.owners().chain(steward.programs_with_blocks()).filter_map(stat).collect();
        all.sort_by(|one, other| one.owner.cmp(&other.owner));
        all
    }
}

impl TakingStat {
    /// By the decisions that the steward remembers; `known` says name and user of an owner.
    pub fn all(steward: &Steward, known: impl Fn(OwnerId) -> (String, Option<u32>)) -> Vec<Self> {
        let mut pairs = BTreeMap::new();
        for decision in steward.decisions() {
            if let (Some(from), Some(to)) = (decision.victim_owner, decision.newcomer_owner)
                && from != to
            {
                *pairs.entry((from, to)).or_insert(0) += 1;
            }
        }
        let taking = |((from, to), blocks)| {
            let ((from, from_uid), (to, to_uid)) = (known(from), known(to));
            Self { from, from_uid, to, to_uid, blocks }
        };
        let mut takings: Vec<Self> = pairs.into_iter().map(taking).collect();
        takings.sort_by_key(|taking| std::cmp::Reverse(taking.blocks));
        takings.truncate(TAKINGS_SHOWN);
        takings
    }
}

/// What is cached of a file, and the last decisions about it.
#[derive(Debug, Clone, Default)]
pub struct FileStory {
    /// Blocks cached now.
    pub cached_blocks: u64,
    /// The same by owner; those of `None` are shared.
    owners: BTreeMap<Option<OwnerId>, u64>,
    /// Decisions about its blocks, oldest first.
    pub decisions: Vec<Decision>,
}

impl FileStory {
    /// As the steward knows it.
    pub fn of(steward: &Steward, file: FileId) -> Self {
        let mut owners = BTreeMap::new();
        for index in steward.cached(file) {
            let owner = steward.explain(Block::new(file, index)).and_then(|known| known.owner);
            *owners.entry(owner).or_insert(0) += 1;
        }
        let about = steward.decisions().filter(|decision| decision.victim.file == file);
        Self { cached_blocks: owners.values().sum(), owners, decisions: about.copied().collect() }
    }

    /// The first owner that has blocks of it.
    pub fn first_owner(&self) -> Option<OwnerId> {
        self.owners.keys().find_map(|owner| *owner)
    }

    /// The owner of most of its blocks, with what holds for it.
    pub fn holder(
        &self,
        steward: &Steward,
        file: FileId,
        name: impl Fn(OwnerId) -> String,
    ) -> Option<Holder> {
        let owned = self.owners.iter().filter_map(|(owner, blocks)| Some((blocks, (*owner)?)));
        let (_, owner) = owned.max()?;
        let stat = steward.owner(owner).filter(|_| !steward.is_program(owner));
        let control = stat.is_some_and(|known| known.in_control && !known.revoked);
        let priority = steward.priority(owner, file);
        let policy = if control { steward.policy(owner, priority) } else { steward.followed_for(owner) };
        Some(Holder { owner: name(owner), control, priority, policy })
    }

    /// Cached blocks by the names of owners.
    pub fn owners(&self, name: impl Fn(OwnerId) -> String) -> BTreeMap<String, u64> {
        let mut named = BTreeMap::new();
        for (owner, blocks) in &self.owners {
            *named.entry(owner.map_or("shared".to_owned(), &name)).or_insert(0) += blocks;
        }
        named
    }

    /// The decisions in words. `name` knows what a file is called, if it may be told.
    pub fn lines(&self, name: impl Fn(FileId) -> Option<String>) -> Vec<DecisionLine> {
        self.decisions.iter().map(|decision| DecisionLine::new(decision, &name)).collect()
    }
}

impl PrefetchStat {
    /// What a steward counted.
    pub fn new(steward: &Steward) -> Self {
        Self { lists: steward.prefetched(), lookahead: steward.looked() }
    }
}

impl DecisionLine {
    /// What the steward decided, in words. `name` knows what a file is called, if it may be told.
    fn new(decision: &Decision, name: impl Fn(FileId) -> Option<String>) -> Self {
        let file = decision.victim.file;
        let block = |block: Block| {
            let index = block.index;
            match name(block.file) {
                _ if block.file == file => format!("block {index}"),
                Some(name) => format!("block {index} of {name}"),
                None => format!("block {index} of another file"),
            }
        };
        let text = placing(decision).unwrap_or_else(|| {
            let newcomer = decision.newcomer.map_or("a smaller cache".to_owned(), block);
            format!("lost to {newcomer}; the candidate was {}", block(decision.candidate))
        });
        Self {
            number: decision.sequence,
            block: decision.victim.index,
            rule: decision.rule.to_string(),
            text,
        }
    }
}

/// Where a block of a hierarchy of tiers went and why, if that is what was decided.
fn placing(decision: &Decision) -> Option<String> {
    let tier = decision.to.map_or("no tier".to_owned(), |tier| format!("tier {}", tier.0));
    Some(match decision.rule {
        Rule::Passes => format!("kept in {tier}, and only passes memory: its last two uses are far apart"),
        Rule::Demoted => format!("left memory for {tier}"),
        Rule::TooOld => "left memory for no tier: all blocks there were used later".to_owned(),
        Rule::Unwanted => "left memory for no tier: its priority is negative".to_owned(),
        Rule::Void => "left memory for no tier: its file has changed, or its bytes never came".to_owned(),
        Rule::TierClosed => "left memory for no tier: tier 2 does not work".to_owned(),
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Hint, HintAnswer, PolicyName};
    use pantler_steward::Options;
    use pantler_steward::placement::Tier;

    #[test]
    fn decisions_name_files_that_may_be_told() {
        let decision = Decision {
            sequence: 3,
            victim: Block::new(FileId(1), 7),
            victim_owner: None,
            candidate: Block::new(FileId(1), 9),
            newcomer: Some(Block::new(FileId(2), 5)),
            newcomer_owner: None,
            rule: Rule::Overruled,
            to: None,
        };
        let text = |name: Option<&str>| DecisionLine::new(&decision, |_| name.map(str::to_owned)).text;
        assert_eq!(text(Some("/mnt/b")), "lost to block 5 of /mnt/b; the candidate was block 9");
        assert_eq!(text(None), "lost to block 5 of another file; the candidate was block 9");
        let placing = |rule, to| DecisionLine::new(&Decision { rule, to, ..decision }, |_| None).text;
        assert_eq!(placing(Rule::Demoted, Some(Tier(3))), "left memory for tier 3");
        let far = "and only passes memory: its last two uses are far apart";
        assert_eq!(placing(Rule::Passes, Some(Tier(2))), format!("kept in tier 2, {far}"));
        assert_eq!(placing(Rule::Passes, None), format!("kept in no tier, {far}"));
    }

    #[test]
    fn what_owners_take_from_each_other_is_summed_up() {
        let mut steward = Steward::new(Options { log: 100, ..Options::new(4) }).unwrap();
        let blocks = |file, count| (0..count).map(move |index| Block::new(FileId(file), index));
        for (owner, file, count) in [(1, 1, 4), (2, 2, 3)] {
            for block in blocks(file, count) {
                steward.access(OwnerId(owner), block);
                steward.fetched(block);
            }
        }
        let takings = TakingStat::all(&steward, |id| (id.0.to_string(), (id.0 == 2).then_some(7)));
        let taking =
            TakingStat { from: "1".into(), from_uid: None, to: "2".into(), to_uid: Some(7), blocks: 3 };
        assert_eq!(takings, [taking]);
    }

    #[test]
    fn hints_are_carried_out_and_owners_are_told_of() {
        let mut steward = Steward::new(Options::new(10)).unwrap();
        let (owner, other, file) = (OwnerId(1), OwnerId(2), FileId(7));
        for index in 0..3 {
            steward.access(owner, Block::new(file, index));
        }
        steward.access(other, Block::new(FileId(8), 0));
        let path = std::path::PathBuf::from("f");
        let mut say = |hint: Hint| hint.carry_out(&mut steward, owner, file).map(Result::unwrap);
        let policy = PolicyName::Mru;
        assert_eq!(say(Hint::SetPriority { path: path.clone(), priority: 3 }), Some(HintAnswer::Done));
        assert_eq!(say(Hint::GetPriority { path: path.clone() }), Some(HintAnswer::Priority(3)));
        assert_eq!(say(Hint::SetPolicy { priority: 3, policy }), Some(HintAnswer::Done));
        assert_eq!(say(Hint::GetPolicy { priority: 3 }), Some(HintAnswer::Policy(policy)));
        let mark = Hint::SetTemporaryPriority { path, first: 0, last: 1, priority: -1 };
        assert_eq!(say(mark), Some(HintAnswer::Marked(2)));
        assert_eq!(say(Hint::Grant), None);
        let known = |id: Option<OwnerId>| {
            let name = format!("owner {}", id?.0);
            Some(KnownOwner { name, uid: Some(5), pid: None, live: true })
        };
        let owners = OwnerStat::all(&steward, known);
        let names: Vec<_> = owners.iter().map(|owner| owner.owner.as_str()).collect();
        assert_eq!(names, ["owner 1", "owner 2"]);
        assert!(owners[0].control && !owners[1].control);
        assert_eq!(owners[0].counters.blocks, 3);
        let levels: Vec<_> =
            owners[0].priorities.iter().map(|level| (level.priority, level.blocks)).collect();
        assert_eq!(levels, [(-1, 2), (0, 0), (3, 1)]);
        let story = FileStory::of(&steward, file);
        assert_eq!((story.cached_blocks, story.decisions.len()), (3, 0));
        assert_eq!(story.owners(|id| id.0.to_string()), BTreeMap::from([("1".to_owned(), 3)]));
        let holder = story.holder(&steward, file, |id| id.0.to_string());
        let expected = Holder { owner: "1".to_owned(), control: true, priority: 3, policy: PolicyName::Mru };
        assert_eq!(holder, Some(expected));
        assert_eq!(Hint::Clear.carry_out(&mut steward, owner, file), Some(Ok(HintAnswer::Done)));
        assert!(!OwnerStat::all(&steward, known)[0].control);
    }
}
