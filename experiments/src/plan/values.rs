//! Values of a sweep's lists that have a form of their own.

use std::fmt;
use std::str::FromStr;

use anyhow::{Result, bail};
use serde::{Deserialize, Serialize};

/// The generator's flag for an open loop.
pub(crate) const RATE: &str = "rate-limiting";

/// A value of a flag, for the generator. A sweep may write a number for it, or `true` for a flag without a value, and
/// `false` for one that is not given.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(from = "Scalar", into = "String")]
pub struct FlagValue(String);

#[derive(Deserialize)]
#[serde(untagged)]
enum Scalar {
    Switch(bool),
    Integer(i64),
    Number(f64),
    Text(String),
}

/// SETs to GETs, written `1:10`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Ratio {
    /// Share of SETs.
    pub sets: u32,
    /// Share of GETs.
    pub gets: u32,
}

impl FlagValue {
    /// The value as a word.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The words that pass it to the generator under the name `flag`.
    pub(crate) fn words(&self, flag: &str) -> Vec<String> {
        match self.0.as_str() {
            "true" => vec![format!("--{flag}")],
            "false" => Vec::new(),
            value => vec![format!("--{flag}"), value.to_owned()],
        }
    }

    /// The value as a part of a file's name.
    pub(crate) fn file_name(&self) -> String {
        self.0.replace([':', ',', '/'], "-")
    }
}

impl From<Scalar> for FlagValue {
    fn from(scalar: Scalar) -> Self {
        Self(match scalar {
            Scalar::Switch(value) => value.to_string(),
            Scalar::Integer(value) => value.to_string(),
            Scalar::Number(value) => value.to_string(),
            Scalar::Text(value) => value,
        })
    }
}

impl From<&str> for FlagValue {
    fn from(text: &str) -> Self {
        Self(text.to_owned())
    }
}

impl From<FlagValue> for String {
    fn from(value: FlagValue) -> Self {
        value.0
    }
}

impl fmt::Display for FlagValue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl FromStr for Ratio {
    type Err = anyhow::Error;

    fn from_str(text: &str) -> Result<Self> {
        let parsed = text.split_once(':').and_then(|(sets, gets)| Some((sets.parse().ok()?, gets.parse().ok()?)));
        match parsed {
            None | Some((0, 0)) => bail!("a ratio is SETS:GETS, such as 1:10, not {text:?}"),
            Some((sets, gets)) => Ok(Self { sets, gets }),
        }
    }
}

impl TryFrom<String> for Ratio {
    type Error = anyhow::Error;

    fn try_from(text: String) -> Result<Self> {
        text.parse()
    }
}

impl From<Ratio> for String {
    fn from(ratio: Ratio) -> Self {
        ratio.to_string()
    }
}

impl fmt::Display for Ratio {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.sets, self.gets)
    }
}
