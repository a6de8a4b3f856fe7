//! Processes and their descriptors, as far as calls tell.
//!
//! ```text
//!   process --> table --> descriptor 3 --> description: file, position
//!   thread  --/     \---> descriptor 4 --/      (dup)
//!   child   --> copy of the table ------/       (fork)
//! ```
//!
//! As in the kernel: threads share a table, a child gets a copy, and copies of a descriptor share
//! one position.
//!
//! S1  Every descriptor names a description, which counts the descriptors that name it.
//! S2  Every process names a table, which counts the processes that name it.

use std::collections::HashMap;

use super::call::Call;
use crate::Request;
use crate::error::Bad;
use crate::names::Names;

/// Most processes at once.
const PROCESSES_MAX: usize = 1 << 16;
/// Most descriptors of all processes at once.
const DESCRIPTORS_MAX: usize = 1 << 20;
/// Bytes of calls that are not finished, together.
const UNFINISHED_BYTES_MAX: usize = 16 << 20;

/// Bytes of the working directories of all processes, together.
const FOLDER_BYTES_MAX: usize = 16 << 20;

/// An open file.
struct Description {
    file: u32,
    position: u64,
    descriptors: u32,
}

#[derive(Clone, Copy)]
struct Descriptor {
    description: u64,
    closes_on_execute: bool,
}

#[derive(Default)]
struct Table {
    descriptors: HashMap<u64, Descriptor>,
    processes: u32,
}

struct Process {
    table: u64,
    owner: u32,
    /// Working directory, once it was changed.
    folder: Option<Vec<u8>>,
}

impl Process {
    fn folder_bytes(&self) -> usize {
        self.folder.as_ref().map_or(0, Vec::len)
    }
}

/// All that is known.
#[derive(Default)]
pub struct Processes {
    processes: HashMap<u32, Process>,
    tables: HashMap<u64, Table>,
    descriptions: HashMap<u64, Description>,
    descriptors: usize,
    unfinished: HashMap<u32, Vec<u8>>,
    unfinished_bytes: usize,
    folder_bytes: usize,
    /// Numbers given so far, to tables and descriptions.
    numbers: u64,
}

impl Processes {
    /// Keeps the first half of a call.
    pub fn unfinished(&mut self, pid: u32, head: &[u8]) -> Result<(), Bad> {
        self.resumed(pid);
        if self.unfinished_bytes + head.len() > UNFINISHED_BYTES_MAX {
            return Err(Bad::new(head, "fewer calls that are not finished"));
        }
        self.unfinished_bytes += head.len();
        self.unfinished.insert(pid, head.to_vec());
        Ok(())
    }

    /// Gives the first half of a call back.
    pub fn resumed(&mut self, pid: u32) -> Option<Vec<u8>> {
        let head = self.unfinished.remove(&pid)?;
        self.unfinished_bytes -= head.len();
        Some(head)
    }

    /// A process ended.
    pub fn exit(&mut self, pid: u32) {
        self.resumed(pid);
        if let Some(process) = self.processes.remove(&pid) {
            self.folder_bytes -= process.folder_bytes();
            self.leave(process.table);
        }
    }

    /// Follows a call; reads and writes of files give a request.
    pub fn call(&mut self, pid: u32, call: &Call, names: &mut Names) -> Result<Option<Request>, Bad> {
        self.meet(pid, names)?;
        let Some(result) = call.result else { return Ok(None) };
        match call.name {
            b"open" | b"creat" => self.open(pid, call, 0, names)?,
            b"openat" | b"openat2" => self.open(pid, call, 1, names)?,
            b"close" => self.close(pid, call.descriptor(0).map_or(u64::MAX, |found| found.0)),
            b"dup" | b"dup2" | b"dup3" => self.duplicate(pid, call, result)?,
            b"fcntl" | b"fcntl64" if call.says(1, b"F_DUPFD") => self.duplicate(pid, call, result)?,
            b"lseek" | b"_llseek" => self.seek(pid, call, result),
            b"fork" | b"vfork" | b"clone" | b"clone3" => {
                self.fork(pid, u32::try_from(result).unwrap_or(0), call, names)?;
            }
            b"execve" | b"execveat" => self.execute(pid),
            b"chdir" => {
                if let Some(path) = call.string(0) {
                    let folder = self.resolved(pid, path);
                    self.move_to(pid, folder)?;
                }
            }
            b"read" | b"readv" => return self.transfer(pid, call, 0, None, false, names),
            b"pread" | b"pread64" => return self.transfer(pid, call, 0, call.number(3), false, names),
            b"preadv" | b"preadv2" => return self.transfer(pid, call, 0, call.number(3), false, names),
            b"write" | b"writev" => return self.transfer(pid, call, 0, None, true, names),
            b"pwrite" | b"pwrite64" => return self.transfer(pid, call, 0, call.number(3), true, names),
            b"pwritev" | b"pwritev2" => return self.transfer(pid, call, 0, call.number(3), true, names),
            b"sendfile" | b"sendfile64" if call.says(2, b"NULL") => {
                return self.transfer(pid, call, 1, None, false, names);
            }
            _ => {}
        }
        Ok(None)
    }

    fn process(&mut self, pid: u32) -> &mut Process {
        self.processes.get_mut(&pid).expect("every process that calls was met")
    }

    fn table(&mut self, pid: u32) -> &mut Table {
        let table = self.process(pid).table;
        self.tables.get_mut(&table).expect("S2")
    }

    fn number(&mut self) -> u64 {
        self.numbers += 1;
        self.numbers
    }

    /// Makes a process known. One that turns up while another is in the middle of a fork is its
    /// child.
    fn meet(&mut self, pid: u32, names: &mut Names) -> Result<(), Bad> {
        if self.processes.contains_key(&pid) {
            return Ok(());
        }
        let forks: [&[u8]; 4] = [b"clone(", b"clone3(", b"fork(", b"vfork("];
        let forking = |(&parent, head): (&u32, &Vec<u8>)| {
            let forks = forks.iter().any(|fork| head.starts_with(fork));
            (forks && self.processes.contains_key(&parent)).then(|| (parent, head.clone()))
        };
        // The lowest number: maps have no order, and results must not depend on theirs.
        // Lines without a process number are 0: no child of any.
        let parent = self.unfinished.iter().filter_map(forking).min().filter(|_| pid != 0);
        if let Some((parent, head)) = parent {
            let call = Call { name: b"clone", arguments: vec![&head], result: None, result_text: b"" };
            return self.fork(parent, pid, &call, names);
        }
        if self.processes.len() >= PROCESSES_MAX {
            return Err(Bad::number(pid, "at most 65536 processes at once"));
        }
        let owner = names.owner(pid.to_string().as_bytes())?;
        let table = self.number();
        self.tables.insert(table, Table { processes: 1, ..Table::default() });
        self.processes.insert(pid, Process { table, owner, folder: None });
        Ok(())
    }

    fn fork(&mut self, parent: u32, child: u32, call: &Call, names: &mut Names) -> Result<(), Bad> {
        if child == 0 || self.processes.contains_key(&child) {
            return Ok(());
        }
        if self.processes.len() >= PROCESSES_MAX {
            return Err(Bad::number(child, "at most 65536 processes at once"));
        }
        let Process { table, owner, folder } = self.process(parent);
        let (mut table, mut owner, folder) = (*table, *owner, folder.clone());
        let folder_bytes = folder.as_ref().map_or(0, Vec::len);
        self.folder_room(folder_bytes)?;
        if !call.says_anywhere(b"CLONE_THREAD") {
            owner = names.owner(child.to_string().as_bytes())?;
        }
        if call.says_anywhere(b"CLONE_FILES") {
            self.tables.get_mut(&table).expect("S2").processes += 1;
        } else {
            let copy = self.tables[&table].descriptors.clone();
            self.room(copy.len())?;
            self.descriptors += copy.len();
            for descriptor in copy.values() {
                self.descriptions.get_mut(&descriptor.description).expect("S1").descriptors += 1;
            }
            table = self.number();
            self.tables.insert(table, Table { descriptors: copy, processes: 1 });
        }
        self.folder_bytes += folder_bytes;
        self.processes.insert(child, Process { table, owner, folder });
        Ok(())
    }

    fn open(&mut self, pid: u32, call: &Call, at: usize, names: &mut Names) -> Result<(), Bad> {
        let (Some(descriptor), Some(path)) = (call.result, call.string(at)) else { return Ok(()) };
        // A path in another folder than the working one is known only where `strace -y` prints it.
        let folder = if at == 1 { call.arguments[0].split(|&byte| byte == b'<').nth(1) } else { None };
        let path = match (call.result_path(), folder.and_then(|folder| folder.strip_suffix(b">"))) {
            (Some(whole), _) => whole.to_vec(),
            (None, Some(folder)) if !path.starts_with(b"/") => [folder, b"/", path].concat(),
            _ => self.resolved(pid, path),
        };
        let file = names.file(&path)?;
        let closes_on_execute = call.says_anywhere(b"O_CLOEXEC");
        self.install(pid, descriptor, file, closes_on_execute)
    }

    fn resolved(&mut self, pid: u32, path: &[u8]) -> Vec<u8> {
        match &self.process(pid).folder {
            Some(folder) if !path.starts_with(b"/") => [folder, &b"/"[..], path].concat(),
            _ => path.to_vec(),
        }
    }

    /// Another working directory.
    fn move_to(&mut self, pid: u32, folder: Vec<u8>) -> Result<(), Bad> {
        self.folder_bytes -= self.process(pid).folder_bytes();
        // A change that there is no room for leaves a process of which nothing is known.
        self.process(pid).folder = None;
        self.folder_room(folder.len())?;
        self.folder_bytes += folder.len();
        self.process(pid).folder = Some(folder);
        Ok(())
    }

    fn folder_room(&self, more: usize) -> Result<(), Bad> {
        if self.folder_bytes + more > FOLDER_BYTES_MAX {
            return Err(Bad::number(self.folder_bytes + more, "at most 16 MiB of working directories"));
        }
        Ok(())
    }

    fn install(&mut self, pid: u32, descriptor: u64, file: u32, closes_on_execute: bool) -> Result<(), Bad> {
        self.close(pid, descriptor);
        self.room(1)?;
        let description = self.number();
        self.descriptions.insert(description, Description { file, position: 0, descriptors: 1 });
        self.descriptors += 1;
        self.table(pid).descriptors.insert(descriptor, Descriptor { description, closes_on_execute });
        Ok(())
    }

    fn room(&self, more: usize) -> Result<(), Bad> {
        if self.descriptors + more > DESCRIPTORS_MAX {
            return Err(Bad::number(self.descriptors + more, "at most 1048576 open descriptors at once"));
        }
        Ok(())
    }

    fn close(&mut self, pid: u32, descriptor: u64) {
        if let Some(closed) = self.table(pid).descriptors.remove(&descriptor) {
            self.release(closed);
        }
    }

    fn release(&mut self, closed: Descriptor) {
        self.descriptors -= 1;
        let description = self.descriptions.get_mut(&closed.description).expect("S1");
        description.descriptors -= 1;
        if description.descriptors == 0 {
            self.descriptions.remove(&closed.description);
        }
    }

    fn leave(&mut self, table: u64) {
        let left = self.tables.get_mut(&table).expect("S2");
        left.processes -= 1;
        if left.processes == 0 {
            let left = self.tables.remove(&table).expect("it was there");
            for closed in left.descriptors.into_values() {
                self.release(closed);
            }
        }
    }

    fn duplicate(&mut self, pid: u32, call: &Call, new: u64) -> Result<(), Bad> {
        let Some((old, _)) = call.descriptor(0) else { return Ok(()) };
        let Some(&found) = self.table(pid).descriptors.get(&old) else {
            self.close(pid, new);
            return Ok(());
        };
        if old == new {
            return Ok(());
        }
        self.room(1)?;
        self.descriptions.get_mut(&found.description).expect("S1").descriptors += 1;
        self.descriptors += 1;
        self.close(pid, new);
        let closes_on_execute = call.says_anywhere(b"CLOEXEC");
        self.table(pid).descriptors.insert(new, Descriptor { closes_on_execute, ..found });
        Ok(())
    }

    fn execute(&mut self, pid: u32) {
        let table = self.table(pid);
        let closing = table.descriptors.iter().filter(|(_, descriptor)| descriptor.closes_on_execute);
        let closing: Vec<u64> = closing.map(|(&number, _)| number).collect();
        for number in closing {
            self.close(pid, number);
        }
    }

    fn seek(&mut self, pid: u32, call: &Call, result: u64) {
        let Some((number, _)) = call.descriptor(0) else { return };
        // The old call of 32-bit systems returns 0, and its position stands in brackets.
        let printed = call.arguments.get(2).and_then(|word| word.strip_prefix(b"[")?.strip_suffix(b"]"));
        let position = if call.name == b"_llseek" {
            printed.and_then(crate::formats::text::number).unwrap_or(result)
        } else {
            result
        };
        if let Some(description) = self.description(pid, number) {
            description.position = position;
        }
    }

    fn description(&mut self, pid: u32, number: u64) -> Option<&mut Description> {
        let description = self.table(pid).descriptors.get(&number)?.description;
        self.descriptions.get_mut(&description)
    }

    /// A read or write through the descriptor that stands at `at`, at `place` or at the position.
    fn transfer(
        &mut self,
        pid: u32,
        call: &Call,
        at: usize,
        place: Option<u64>,
        write: bool,
        names: &mut Names,
    ) -> Result<Option<Request>, Bad> {
        let bytes = call.result.and_then(|bytes| u32::try_from(bytes).ok()).filter(|&bytes| bytes > 0);
        let (Some((number, path)), Some(length)) = (call.descriptor(at), bytes) else { return Ok(None) };
        if let (None, Some(path)) = (self.description(pid, number), path) {
            // Opened before `strace` looked.
            let file = names.file(path)?;
            self.install(pid, number, file, false)?;
        }
        let owner = self.process(pid).owner;
        let Some(description) = self.description(pid, number) else { return Ok(None) };
        let offset = place.unwrap_or(description.position);
        let Some(end) = offset.checked_add(length.into()) else {
            return Err(Bad::number(offset, "an offset below 2^64"));
        };
        if place.is_none() {
            description.position = end;
        }
        let file = description.file;
        Ok(Some(Request { time_ns: None, owner, file, object: offset, objects: 1, offset, length, write }))
    }
}
