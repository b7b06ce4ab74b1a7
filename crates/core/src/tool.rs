//! The one vocabulary of tools. Rules, displays and the guard over our own files know tools by it, whatever agent
//! asks; an adapter maps its agent's names to it. A tool that is not in here is known by its name alone.

/// A tool whose input is understood.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Tool {
    Command,
    Write,
    Edit,
    MultiEdit,
    EditNotebook,
    Read,
    ReadNotebook,
    /// Finds files by their names.
    Glob,
    /// Finds files by what is in them.
    Grep,
    List,
    Fetch,
    Questions,
    Plan,
    /// A call of which the agent does not show enough to tell what it will do.
    Unclear,
}

/// What a tool does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Operation {
    /// Runs `command` in a shell.
    Command,
    /// Changes the one file that its input names; the rest of the input is text.
    Change,
    /// Reads the one file that its input names.
    Read,
    /// Looks through everything below `path`, or else below the agent's folder.
    Search,
    /// Opens an address.
    Fetch,
    /// Asks a person.
    Question,
    /// Shows a plan to a person.
    Plan,
    /// Cannot be told for sure.
    Unclear,
}

impl Tool {
    pub const ALL: [Self; 14] = [
        Self::Command,
        Self::Write,
        Self::Edit,
        Self::MultiEdit,
        Self::EditNotebook,
        Self::Read,
        Self::ReadNotebook,
        Self::Glob,
        Self::Grep,
        Self::List,
        Self::Fetch,
        Self::Questions,
        Self::Plan,
        Self::Unclear,
    ];

    /// As asks and rules name it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Command => "Bash",
            Self::Write => "Write",
            Self::Edit => "Edit",
            Self::MultiEdit => "MultiEdit",
            Self::EditNotebook => "NotebookEdit",
            Self::Read => "Read",
            Self::ReadNotebook => "NotebookRead",
            Self::Glob => "Glob",
            Self::Grep => "Grep",
            Self::List => "LS",
            Self::Fetch => "WebFetch",
            Self::Questions => "AskUserQuestion",
            Self::Plan => "ExitPlanMode",
            Self::Unclear => "Unclear",
        }
    }

    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|tool| tool.name() == name)
    }

    pub const fn act(self) -> Operation {
        match self {
            Self::Command => Operation::Command,
            Self::Write | Self::Edit | Self::MultiEdit | Self::EditNotebook => Operation::Change,
            Self::Read | Self::ReadNotebook => Operation::Read,
            Self::Glob | Self::Grep | Self::List => Operation::Search,
            Self::Fetch => Operation::Fetch,
            Self::Questions => Operation::Question,
            Self::Plan => Operation::Plan,
            Self::Unclear => Operation::Unclear,
        }
    }

    /// Whether only a person may approve it: a rule would invent the answer, or approve what nobody has seen.
    pub const fn needs_a_person(self) -> bool {
        matches!(self.act(), Operation::Question | Operation::Plan | Operation::Unclear)
    }
}
