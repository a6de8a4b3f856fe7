//! Hints that a user gave for all its owners, present and to come.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, Weak};

use pantler_cache::Cache;
use pantler_steward::{HintError, OwnerId, PolicyName};

use crate::content::Content;

/// Hints that users gave for all their owners, by user.
#[derive(Default)]
pub(crate) struct UserDefaults {
    by_user: Mutex<HashMap<u32, Defaults>>,
}

/// Files a user may give a default priority for.
const DEFAULT_FILES_MAX: usize = 4096;
/// Priorities a user may give a default policy for.
const DEFAULT_POLICIES_MAX: usize = 64;

#[derive(Default, Clone)]
struct Defaults {
    policies: Vec<(i32, PolicyName)>,
    /// Priorities by number of the inode's content in the origin.
    files: Vec<(Weak<Content>, i32)>,
}

impl UserDefaults {
    fn lock(&self) -> MutexGuard<'_, HashMap<u32, Defaults>> {
        self.by_user.lock().expect("defaults are in order")
    }

    /// Whether the user gave any that holds: then its processes are one owner, but for those with
    /// hints of their own.
    pub(crate) fn has(&self, uid: u32) -> bool {
        let holds = |it: &Defaults| {
            !it.policies.is_empty() || it.files.iter().any(|(content, _)| content.strong_count() > 0)
        };
        self.lock().get(&uid).is_some_and(holds)
    }

    /// Tells the steward a new owner's defaults, if its user has any.
    pub(crate) fn apply(&self, cache: &Cache, uid: u32, owner: OwnerId) {
        let defaults = self.lock().get(&uid).cloned();
        let Some(defaults) = defaults else { return };
        cache.with_steward(|steward| {
            for (priority, policy) in defaults.policies {
                // Bounds hold for defaults as for anything else; one past them has no effect.
                let _ = steward.set_policy(owner, priority, policy);
            }
            for (content, priority) in defaults.files {
                if let Some(content) = content.upgrade() {
                    let _ = steward.set_priority(owner, content.file(), priority);
                }
            }
        });
    }

    /// Sets the policy of a priority, or takes it back.
    pub(crate) fn set_policy(
        &self,
        uid: u32,
        priority: i32,
        policy: Option<PolicyName>,
    ) -> Result<(), HintError> {
        let mut all = self.lock();
        let policies = &mut all.entry(uid).or_default().policies;
        policies.retain(|&(other, _)| other != priority);
        if policy.is_some() && policies.len() >= DEFAULT_POLICIES_MAX {
            return Err(HintError::TooManyPriorities(DEFAULT_POLICIES_MAX as u32));
        }
        policies.extend(policy.map(|policy| (priority, policy)));
        Ok(())
    }

    /// Sets the priority of a file, or takes it back.
    pub(crate) fn set_priority(
        &self,
        uid: u32,
        content: &Arc<Content>,
        priority: Option<i32>,
    ) -> Result<(), HintError> {
        let mut all = self.lock();
        let files = &mut all.entry(uid).or_default().files;
        files.retain(|(other, _)| other.upgrade().is_some_and(|other| !Arc::ptr_eq(&other, content)));
        if priority.is_some() && files.len() >= DEFAULT_FILES_MAX {
            return Err(HintError::TooManyFiles(DEFAULT_FILES_MAX as u32));
        }
        files.extend(priority.map(|priority| (Arc::downgrade(content), priority)));
        Ok(())
    }

    pub(crate) fn clear(&self, uid: u32) {
        self.lock().remove(&uid);
    }

    pub(crate) fn policy(&self, uid: u32, priority: i32) -> Option<PolicyName> {
        let all = self.lock();
        all.get(&uid)?.policies.iter().find(|&&(p, _)| p == priority).map(|&(_, policy)| policy)
    }

    pub(crate) fn priority(&self, uid: u32, content: &Arc<Content>) -> Option<i32> {
        let all = self.lock();
        let mut files = all.get(&uid)?.files.iter();
        files.find_map(|(other, p)| Arc::ptr_eq(&other.upgrade()?, content).then_some(*p))
    }
}
