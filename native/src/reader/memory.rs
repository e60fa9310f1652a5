//! The templates that Python taught, within a bound of bytes.

use std::sync::{Arc, RwLock};

use ahash::AHashMap;

use super::span::Role;
use super::template::Template;

/// Templates of one shape, the newest first: each for another outcome of the conditions.
const MAX_VARIANTS: usize = 16;
const ENTRY_BYTES: usize = 160;

/// What is known of a span's key.
#[derive(Clone)]
pub enum Known {
    Nothing,
    /// Python reads such spans; the reason.
    Refused(Arc<str>),
    Templates(Arc<Vec<Arc<Template>>>),
}

/// Spans of one scope with one list of names.
pub struct Profile {
    pub roles: Vec<Role>,
    /// Whether rules may look at the span's name.
    pub reads_name: bool,
    /// Why Python reads all of them; `None` where it need not.
    pub refused: Option<Arc<str>>,
    shapes: RwLock<AHashMap<Vec<u8>, Known>>,
}

impl Profile {
    pub fn new(roles: Vec<Role>, reads_name: bool, refused: Option<Arc<str>>) -> Self {
        Profile {
            roles,
            reads_name,
            refused,
            shapes: RwLock::default(),
        }
    }

    /// What is known of the spans with *key*.
    pub fn known(&self, key: &[u8]) -> Known {
        match self.shapes.read() {
            Ok(shapes) => shapes.get(key).cloned().unwrap_or(Known::Nothing),
            Err(_) => Known::Nothing,
        }
    }

    /// Add what is known of *key*; returns how many bytes more that takes.
    fn add(&self, key: &[u8], template: Result<Template, Arc<str>>) -> usize {
        let Ok(mut shapes) = self.shapes.write() else {
            return 0;
        };
        let mut added = 0;
        let known = shapes.entry(key.to_vec()).or_insert_with(|| {
            added = key.len() + ENTRY_BYTES;
            Known::Nothing
        });
        match template {
            Err(reason) => *known = Known::Refused(reason),
            Ok(template) => {
                let size = template.size();
                let (templates, dropped) = with_newest(known, template);
                *known = Known::Templates(Arc::new(templates));
                added += size.saturating_sub(dropped);
            }
        }
        added
    }
}

/// The templates of *known* behind a new one, and the bytes of those dropped. The newest holds most
/// often: prices go by the hour.
fn with_newest(known: &Known, template: Template) -> (Vec<Arc<Template>>, usize) {
    let mut templates = vec![Arc::new(template)];
    if let Known::Templates(before) = known {
        templates.extend(before.iter().cloned());
    }
    let last = templates.len().min(MAX_VARIANTS);
    let dropped = templates
        .drain(last..)
        .map(|template| template.size())
        .sum();
    (templates, dropped)
}

/// Spans of one scope of one resource, from one sender.
#[derive(Clone)]
pub struct ScopeMemory {
    pub service: Option<Arc<str>>,
    profiles: AHashMap<Vec<u8>, Arc<Profile>>,
}

pub struct Memory {
    scopes: AHashMap<Vec<u8>, ScopeMemory>,
    pub bytes: usize,
    max_bytes: usize,
}

impl Memory {
    pub fn new(max_bytes: usize) -> Self {
        Memory {
            scopes: AHashMap::default(),
            bytes: 0,
            max_bytes,
        }
    }

    /// The service that a scope's resource names, and the profile of spans with *names* in it.
    pub fn profile(&self, scope: &[u8], names: &[u8]) -> Option<(Option<Arc<str>>, Arc<Profile>)> {
        let found = self.scopes.get(scope)?;
        Some((found.service.clone(), found.profiles.get(names)?.clone()))
    }

    /// The profile of *names*, made where there is none; a profile that is there stays.
    pub fn learn(
        &mut self,
        scope: &[u8],
        service: Option<&str>,
        names: &[u8],
        profile: Profile,
    ) -> Arc<Profile> {
        if self.bytes >= self.max_bytes {
            self.clear();
        }
        let mut added = 0;
        let found = self.scopes.entry(scope.to_vec()).or_insert_with(|| {
            added += scope.len() + ENTRY_BYTES;
            ScopeMemory {
                service: service.map(Into::into),
                profiles: AHashMap::default(),
            }
        });
        let profile = found.profiles.entry(names.to_vec()).or_insert_with(|| {
            added += names.len() + profile.roles.len() * 2 + ENTRY_BYTES;
            Arc::new(profile)
        });
        let profile = profile.clone();
        self.bytes += added;
        profile
    }

    pub fn add(&mut self, profile: &Profile, key: &[u8], template: Result<Template, Arc<str>>) {
        self.bytes += profile.add(key, template);
    }

    pub fn clear(&mut self) {
        self.scopes.clear();
        self.bytes = 0;
    }
}
