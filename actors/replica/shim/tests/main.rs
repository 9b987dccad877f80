//! Real processes under a real shim. Nothing sleeps: each wait ends with an event.

#[cfg(test)]
mod control;
#[cfg(test)]
mod harness;
#[cfg(test)]
mod launch;
#[cfg(test)]
mod limits;
#[cfg(test)]
mod lost;
#[cfg(test)]
mod tree;
