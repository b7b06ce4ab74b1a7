//! Where asks come from: one folder an agent, or a way to reach one.

pub mod before;
pub mod claude;
pub mod codex;
pub mod demo;
pub mod driven;
pub mod lines;
pub mod script;
pub mod supervise;

use aye_core::digest::hex;

/// A name that nothing else has.
pub fn random_name() -> Result<String, getrandom::Error> {
    let mut bytes = [0; 6];
    getrandom::fill(&mut bytes)?;
    Ok(hex(&bytes))
}

/// Set for agents that `aye run` drives: whoever reads their pipes asks for them already.
pub const DRIVEN: &str = "AYE_DRIVEN";
