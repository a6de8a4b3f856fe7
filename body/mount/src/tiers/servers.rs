//! A tier on a server: opening it.

use pantler_tier::{RemoteOptions, RemoteTier, Stem, Tier, TierPlace};
use std::sync::Arc;

use super::{Opened, TierMissing, TierOptions, tier_error};
use crate::{MountError, MountOptions};

pub(super) fn open(options: &MountOptions, place: &TierPlace, bytes: u64) -> Result<Opened, MountError> {
    let TierOptions { timeout, missing, authority, seal, .. } = &options.tiers;
    let tier = RemoteTier::new(RemoteOptions {
        place: place.clone(),
        bytes,
        timeout: *timeout,
        password: password_of(&options.tiers, place).cloned(),
        authority: authority.clone(),
        client: client_name(options),
        seal: seal.clone(),
    });
    let tier = tier.map_err(tier_error)?;
    match tier.heal() {
        Ok(()) => {
            tracing::info!(tier = tier.name(), server = tier.server(), "is there");
            Ok((Arc::new(tier), true))
        }
        Err(error) if *missing == TierMissing::Without => {
            tracing::warn!(%error, "going without until it is there");
            Ok((Arc::new(tier), false))
        }
        Err(error) => Err(tier_error(error)),
    }
}

fn password_of<'a>(tiers: &'a TierOptions, place: &TierPlace) -> Option<&'a String> {
    let own = tiers.passwords.iter().find(|(server, _)| place.is_at(server));
    own.map(|(_, password)| password).or(tiers.password.as_ref())
}

/// The same after a restart: a mount that owned blocks on a server owns them again. Machines that
/// were cloned with their names are told apart by the number that systemd gives each.
fn client_name(options: &MountOptions) -> String {
    let host = rustix::system::uname().nodename().to_string_lossy().into_owned();
    let machine = std::fs::read("/etc/machine-id").unwrap_or_default();
    let place = options.mountpoint.to_string_lossy().into_owned();
    let stem = Stem::new(None, 0, [host.as_bytes(), &machine, place.as_bytes()]);
    let text = stem.block(0).to_string();
    let hash = text.split(':').nth(2).unwrap_or_default();
    format!("pantler-{hash}")
}
