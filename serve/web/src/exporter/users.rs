//! Connections by the user at their other end.
//!
//! U1  `open` has an entry for each user with connections, and no other.
//! U2  No user has more than `CONNECTIONS_PER_USER_MAX`, and all but root together have no more
//!     than `CONNECTIONS_OF_OTHERS_MAX`.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::CONNECTIONS_MAX;

/// Connections of one user at a time. A browser opens six.
pub const CONNECTIONS_PER_USER_MAX: usize = 16;
/// Those of all users but root: root has the rest to itself.
const CONNECTIONS_OF_OTHERS_MAX: usize = CONNECTIONS_MAX - CONNECTIONS_PER_USER_MAX;

/// A user, or `None` where the kernel knows none: all such connections count as those of one user.
type User = Option<u32>;

#[derive(Debug, Default)]
pub struct Users {
    open: Mutex<HashMap<User, usize>>,
}

impl Users {
    /// Counts a connection until its guest is dropped; `None` if the user has too many.
    pub fn admit(self: &Arc<Self>, user: User) -> Option<Guest> {
        let mut open = self.open();
        let of_others: usize =
            open.iter().filter(|(user, _)| **user != Some(0)).map(|(_, count)| count).sum();
        let own = open.get(&user).copied().unwrap_or(0);
        let is_full =
            own >= CONNECTIONS_PER_USER_MAX || (user != Some(0) && of_others >= CONNECTIONS_OF_OTHERS_MAX);
        if is_full {
            return None;
        }
        open.insert(user, own + 1);
        Some(Guest { users: Arc::clone(self), user })
    }

    fn open(&self) -> MutexGuard<'_, HashMap<User, usize>> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A connection that is counted.
#[derive(Debug)]
pub struct Guest {
    users: Arc<Users>,
    user: User,
}

impl Drop for Guest {
    fn drop(&mut self) {
        let mut open = self.users.open();
        if let Some(count) = open.get_mut(&self.user) {
            *count -= 1;
            if *count == 0 {
                open.remove(&self.user);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_user_takes_the_connections_of_another_and_none_those_of_root() {
        let users = Arc::new(Users::default());
        let mut guests = Vec::new();
        for user in [Some(7), Some(8), None] {
            guests.extend((0..CONNECTIONS_PER_USER_MAX).map(|_| users.admit(user).expect("room")));
            assert!(users.admit(user).is_none(), "U2 for {user:?}");
        }
        assert_eq!(guests.len(), CONNECTIONS_OF_OTHERS_MAX);
        assert!(users.admit(Some(9)).is_none(), "U2 for all but root");
        guests.extend((0..CONNECTIONS_PER_USER_MAX).map(|_| users.admit(Some(0)).expect("room for root")));
        assert_eq!(guests.len(), CONNECTIONS_MAX);
        guests.remove(0);
        assert!(users.admit(Some(9)).is_some());
        guests.clear();
        assert!(users.open().is_empty(), "U1");
    }
}
