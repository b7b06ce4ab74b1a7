use super::{MARKER, Service};

pub const LABEL: &str = "local.aye";

/// Apostrophes are all that matters inside apostrophes.
pub fn enable(path: &str) -> String {
    format!("launchctl bootstrap gui/$(id -u) '{}'", path.replace('\'', r"'\''"))
}

pub fn plist(service: &Service) -> String {
    let words: String = [&service.program]
        .into_iter()
        .chain(&service.arguments)
        .map(|word| format!("        <string>{}</string>\n", escape(word)))
        .collect();
    let environment = match &service.home {
        Some(home) => format!(
            "    <key>EnvironmentVariables</key>
    <dict>
        <key>AYE_HOME</key>
        <string>{}</string>
    </dict>
",
            escape(home)
        ),
        None => String::new(),
    };
    format!(
        r#"<?xml version="1.0" encoding="UTF-8"?>
<!DOCTYPE plist PUBLIC "-//Apple//DTD PLIST 1.0//EN" "http://www.apple.com/DTDs/PropertyList-1.0.dtd">
<!-- {MARKER} -->
<plist version="1.0">
<dict>
    <key>Label</key>
    <string>{LABEL}</string>
    <key>ProgramArguments</key>
    <array>
{words}    </array>
{environment}    <key>RunAtLoad</key>
    <true/>
    <!-- Again only after a failure: who stopped it meant it. -->
    <key>KeepAlive</key>
    <dict>
        <key>SuccessfulExit</key>
        <false/>
    </dict>
    <!-- Runs that the hub started outlive it. -->
    <key>AbandonProcessGroup</key>
    <true/>
</dict>
</plist>
"#
    )
}

fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

#[cfg(test)]
mod tests {
    use super::super::tests::{awkward, plain};
    use super::*;

    #[test]
    fn a_plain_agent_reads_plainly() {
        insta::assert_snapshot!(plist(&plain()), @r#"
        <?xml version="1.0" encoding="UTF-8"?>
        <!DOCTYPE plist PUBLIC "-//Apple//DTD PLIST 1.0//EN" "http://www.apple.com/DTDs/PropertyList-1.0.dtd">
        <!-- Written by aye, and again whenever its service is installed: changes do not last. -->
        <plist version="1.0">
        <dict>
            <key>Label</key>
            <string>local.aye</string>
            <key>ProgramArguments</key>
            <array>
                <string>/usr/local/bin/aye</string>
                <string>up</string>
                <string>--no-open</string>
                <string>--listen</string>
                <string>127.0.0.1:7177</string>
            </array>
            <key>RunAtLoad</key>
            <true/>
            <!-- Again only after a failure: who stopped it meant it. -->
            <key>KeepAlive</key>
            <dict>
                <key>SuccessfulExit</key>
                <false/>
            </dict>
            <!-- Runs that the hub started outlive it. -->
            <key>AbandonProcessGroup</key>
            <true/>
        </dict>
        </plist>
        "#);
    }

    #[test]
    fn whatever_stands_in_a_path_stays_text() {
        let plist = plist(&awkward());
        let strings: Vec<_> = plist.lines().filter(|line| line.contains("<string>")).map(str::trim).collect();
        insta::assert_snapshot!(strings.join("\n"), @r#"
        <string>local.aye</string>
        <string>/opt/50% off/$HOME/aye &amp; &lt;co&gt;</string>
        <string>up</string>
        <string>--no-open</string>
        <string>--listen</string>
        <string>127.0.0.1:7177</string>
        <string>--tls-key</string>
        <string>/k 1/a"b'c\d/%i.pem</string>
        <string>/srv/a b/%h "$x"</string>
        "#);
        let comments: Vec<_> =
            plist.split("<!-- ").skip(1).filter_map(|rest| rest.split(" -->").next()).collect();
        assert!(comments.len() == 3 && comments.iter().all(|comment| !comment.contains("--")));
        assert_eq!(enable("/Users/o'k/x.plist"), r"launchctl bootstrap gui/$(id -u) '/Users/o'\''k/x.plist'");
    }
}
