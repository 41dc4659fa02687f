//! Who may do what: users, their rules, and what was refused (redis.io/docs/management/security/acl).

mod file;
mod log;
mod rules;
mod show;
#[cfg(test)]
mod tests;
mod user;

pub use file::AclFileError;
pub(crate) use log::{Context, Entry as LogEntry, Reason};
pub use rules::RuleError;
pub(crate) use rules::{has_spaces, merge_selectors};
pub use user::User;
pub(crate) use user::{Denied, Selector};

use crate::config::Config;
use log::Log;
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

/// The user that clients are without AUTH.
pub(crate) const DEFAULT: &[u8] = b"default";

/// All users. There is always one that is called `default`.
#[derive(Clone, Debug)]
pub struct Acl {
    users: BTreeMap<Box<[u8]>, Arc<User>>,
    default: Arc<User>,
    pub(crate) log: Log,
}

impl Acl {
    /// The default user alone, with the password of the settings.
    pub fn new(config: &Config) -> Acl {
        let mut user = User::default_user();
        if let Some(password) = config.password() {
            user.set_only_password(password.as_bytes());
        }
        let mut acl = Acl {
            users: BTreeMap::new(),
            default: Arc::default(),
            log: Log::default(),
        };
        acl.put(user);
        acl
    }

    /// As [`Acl::new`], with the users of the file that the settings name.
    ///
    /// # Errors
    /// The file cannot be read, or has rules that are none.
    pub fn open(config: &Config) -> Result<Acl, AclFileError> {
        let mut acl = Acl::new(config);
        if let Some(path) = config.aclfile() {
            let users = file::read(Path::new(path), config.channels_by_default())?;
            users.into_iter().for_each(|user| acl.put(user));
        }
        Ok(acl)
    }

    /// The users of a file's bytes. `path` names it in errors.
    ///
    /// # Errors
    /// Each line that is wrong, and why.
    pub fn parse(bytes: &[u8], path: &str) -> Result<Vec<User>, AclFileError> {
        file::parse(bytes, path, false)
    }

    /// Whether clients may do something without AUTH.
    pub fn is_open(&self) -> bool {
        self.default.needs_no_password()
    }

    /// The user that clients are without AUTH.
    pub(crate) fn default_user(&self) -> &Arc<User> {
        &self.default
    }

    pub(crate) fn user(&self, name: &[u8]) -> Option<&Arc<User>> {
        self.users.get(name)
    }

    /// All users, by their names.
    pub(crate) fn users(&self) -> impl ExactSizeIterator<Item = &Arc<User>> {
        self.users.values()
    }

    /// Puts a user in place of the one of that name.
    pub(crate) fn put(&mut self, user: User) {
        let user = Arc::new(user);
        if user.name() == DEFAULT {
            self.default = user.clone();
        }
        self.users.insert(user.name().into(), user);
    }

    /// Removes a user. The default one stays.
    pub(crate) fn remove(&mut self, name: &[u8]) -> bool {
        name != DEFAULT && self.users.remove(name).is_some()
    }

    /// The user of a name and a password, if that may log in.
    pub(crate) fn log_in(&self, name: &[u8], password: &[u8]) -> Option<Arc<User>> {
        let user = self.users.get(name)?;
        user.accepts(password).then(|| user.clone())
    }

    /// The users of a file, in place of those that are there.
    ///
    /// # Errors
    /// As for [`Acl::open`]; nothing was changed.
    pub(crate) fn load(&mut self, config: &Config, path: &str) -> Result<(), AclFileError> {
        let users = file::read(Path::new(path), config.channels_by_default())?;
        let log = std::mem::take(&mut self.log);
        *self = Acl {
            log,
            ..Acl::new(config)
        };
        users.into_iter().for_each(|user| self.put(user));
        Ok(())
    }

    /// Writes all users into a file, in place of the one that is there, durably.
    ///
    /// # Errors
    /// The file is as it was.
    pub(crate) fn save(&self, path: &str) -> std::io::Result<()> {
        file::write(Path::new(path), self.users())
    }
}
