//! What a server says without having been asked.

use redis::{PushInfo, PushKind, Value};

use crate::{Key, News};

/// News that were not taken yet.
#[derive(Debug, Default)]
pub(super) struct Ears {
    /// The connection that is listened to.
    line: u64,
    disconnected: bool,
    news: News,
}

impl Ears {
    /// From now on only what a new connection says is heard. Returns its number.
    pub(super) fn begin(&mut self) -> u64 {
        self.line += 1;
        self.disconnected = false;
        self.line
    }

    /// The connection that ended, if that was not told yet.
    pub(super) fn disconnected(&self) -> Option<u64> {
        self.disconnected.then_some(self.line)
    }

    pub(super) fn is_line(&self, line: u64) -> bool {
        self.line == line
    }

    /// The connection is no good any more.
    pub(super) fn disconnect(&mut self) {
        self.disconnected = true;
    }

    /// The connection was lost: what left meanwhile is unknown, and not gone.
    pub(super) fn lost(&mut self) {
        self.line += 1;
        self.disconnected = false;
        self.news = News { unknown: true, ..News::default() };
    }

    pub(super) fn news(&mut self) -> News {
        let full = self.news.full;
        std::mem::replace(&mut self.news, News { full, ..News::default() })
    }

    pub(super) fn hear(&mut self, line: u64, said: &PushInfo) {
        if line != self.line {
            return;
        }
        match (&said.kind, said.data.as_slice()) {
            (PushKind::Disconnection, _) => self.disconnected = true,
            // Everything was removed, or the table of what is tracked was: which blocks left is not
            // said.
            (PushKind::Invalidate, [Value::Nil]) => self.news.unknown = true,
            (PushKind::Invalidate, [Value::Array(keys)]) => self.leave(keys),
            (PushKind::Other(name), [Value::Int(full), Value::Int(unknown), Value::Array(keys)])
                if name == "pantler" =>
            {
                self.news.full = Some(*full != 0);
                self.news.unknown |= *unknown != 0;
                self.leave(keys);
            }
            // A newer server may say more.
            _ => {}
        }
    }

    /// A block that is not there, for all questions from now on.
    pub(super) fn miss(&mut self, key: Key) {
        self.news.leave(key);
    }

    fn leave(&mut self, keys: &[Value]) {
        for key in keys {
            let Value::BulkString(text) = key else { continue };
            if let Some(key) = Key::parse(text) {
                self.miss(key);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Stem;
    use crate::tier::NEWS_MAX;

    fn key(index: u64) -> Key {
        Stem::new(None, 4096, [b"x".as_slice()]).block(index)
    }

    fn text(key: Key) -> Value {
        Value::BulkString(key.to_string().into_bytes())
    }

    fn said(kind: PushKind, data: Vec<Value>) -> PushInfo {
        PushInfo { kind, data }
    }

    #[test]
    fn keys_that_left_are_heard_once_and_nothing_else_is_believed() {
        let mut ears = Ears::default();
        let line = ears.begin();
        let strange = Value::BulkString(b"pantler:somebody".to_vec());
        let keys = Value::Array(vec![text(key(1)), strange, Value::Int(3), text(key(2))]);
        ears.hear(line, &said(PushKind::Invalidate, vec![keys.clone()]));
        ears.hear(line - 1, &said(PushKind::Invalidate, vec![Value::Array(vec![text(key(9))])]));
        ears.hear(line, &said(PushKind::Other("gossip".into()), vec![keys]));
        assert_eq!(ears.news(), News { full: None, gone: vec![key(1), key(2)], unknown: false });
        assert_eq!(ears.news(), News::default());
    }

    #[test]
    fn what_was_flushed_overflowed_or_cut_off_is_unknown_and_not_gone() {
        let mut ears = Ears::default();
        let line = ears.begin();
        ears.hear(line, &said(PushKind::Invalidate, vec![Value::Nil]));
        assert_eq!(ears.news(), News { unknown: true, ..News::default() });
        let many: Vec<Value> = (0..NEWS_MAX as u64 + 1).map(|index| text(key(index))).collect();
        ears.hear(line, &said(PushKind::Invalidate, vec![Value::Array(many)]));
        let news = ears.news();
        assert!(news.unknown && news.gone.len() == NEWS_MAX);
        ears.hear(line, &said(PushKind::Invalidate, vec![Value::Array(vec![text(key(1))])]));
        ears.hear(line, &said(PushKind::Disconnection, vec![]));
        assert_eq!(ears.disconnected(), Some(line));
        ears.lost();
        assert_eq!(ears.news(), News { unknown: true, ..News::default() });
        ears.hear(line, &said(PushKind::Invalidate, vec![Value::Array(vec![text(key(1))])]));
        assert_eq!(ears.news(), News::default(), "a connection that was given up");
    }

    #[test]
    fn our_server_says_whether_it_is_full() {
        let mut ears = Ears::default();
        let line = ears.begin();
        let data = vec![Value::Int(1), Value::Int(0), Value::Array(vec![text(key(5))])];
        ears.hear(line, &said(PushKind::Other("pantler".into()), data));
        assert_eq!(ears.news(), News { full: Some(true), gone: vec![key(5)], unknown: false });
    }
}
