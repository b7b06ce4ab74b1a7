use super::Done;
use super::browser;
use super::listen::ListenArgs;
use super::service;
use crate::agents::demo;
use crate::api::{AllowedHosts, App, Listeners, serve};
use crate::config::Config;
use crate::home::Home;
use crate::hub::{Clock, Hub};
use crate::shutdown::Signals;
use crate::surfaces::telegram::Telegram;
use crate::surfaces::terminal::notices;
use crate::surfaces::terminal::style::{DIM, HEAD, paint};
use crate::telemetry;
use crate::webauthn::Pages;
use clap::Args;
use futures_util::FutureExt;
use rustix::process::{Resource, getrlimit, setrlimit};
use std::io::{IsTerminal, Write};
use std::process::ExitCode;
use std::time::Duration;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

/// How long connections get to end by themselves.
const LONGEST_GOODBYE: Duration = Duration::from_secs(5);

/// Run the hub, which collects the requests of all your agents.
#[derive(Args)]
#[command(after_help = "\
Examples:
  aye up                          run the hub and open its page
  aye up --demo                   with a scripted agent, to see it work
  aye up --listen 127.0.0.1:0     on any free port
  aye up --listen 0.0.0.0:7177 --tls-cert cert.pem --tls-key key.pem
                                  for other machines as well

Ctrl-C or SIGTERM stops it. Waiting agents keep waiting, and nothing is lost.")]
pub struct Up {
    #[command(flatten)]
    listen: ListenArgs,
    /// Do not open the page in a browser
    #[arg(long)]
    no_open: bool,
    /// Add a scripted agent that sends one request of each kind
    #[arg(long)]
    demo: bool,
    /// Write a service file that runs the hub with these options; does not start it
    #[arg(long, conflicts_with = "demo")]
    install_service: bool,
}

impl Up {
    pub async fn run(self, home: Home) -> Done {
        telemetry::start();
        let checked = self.listen.check(&home)?;
        let home = home.with_secret(self.listen.secret());
        if self.install_service {
            service::install(&home, self.listen.listen, self.listen.arguments()?)?;
            return Ok(ExitCode::SUCCESS);
        }
        let mut signals = Signals::listen()?;
        // The hub itself tells of a broken file, and goes on without its policy.
        let (config, off) = Config::for_surfaces(&home.config());
        for off in off {
            tracing::error!("{off}");
        }
        let telegram = Telegram::load(&config, &home)?;
        home.prepare()?;
        let _lock = home.lock()?;
        allow_many_connections();

        let listeners = Listeners::bind(self.listen.listen, checked.tls.clone(), &home.socket()).await?;
        let listening = listeners.address()?;
        let url = checked.url(listening);
        let hub = tokio::select! {
            hub = Hub::open(&home, Clock::system()) => hub?,
            // Another hub may have the database, for as long as it likes.
            _ = signals.wait() => return Ok(ExitCode::SUCCESS),
        };
        let (stop, tasks) = (CancellationToken::new(), TaskTracker::new());
        hub.start_timers(&tasks, stop.clone());
        let address = checked.address(listening);
        hub.serves_pages(Pages::of(checked.public.as_ref(), checked.tls.is_some(), listening.port()));
        let hosts = AllowedHosts::of(listening, checked.tls.is_some(), checked.public);
        let app = App::new(hub.clone(), hosts, url, stop.clone(), tasks.clone());
        let link = app.sign_in_link().await?;
        tasks.spawn(serve(app, listeners).boxed());
        self.greet(&address, &link)?;
        if !self.no_open && std::io::stdout().is_terminal() {
            tasks.spawn(browser::open(hub.clone(), home.clone(), link, stop.clone()).boxed());
        }
        if std::io::stdout().is_terminal() {
            tasks.spawn(notices::run(hub.clone(), stop.clone()).boxed());
        }
        tasks.spawn(telegram.run(hub.clone(), stop.clone()).boxed());
        if self.demo {
            tasks.spawn(demo::run(home.clone(), stop.clone()).boxed());
        }

        let why = signals.wait().await;
        tracing::info!("{why}: stopping");
        stop.cancel();
        tasks.close();
        if tokio::time::timeout(LONGEST_GOODBYE, tasks.wait()).await.is_err() {
            tracing::warn!("some connections did not end by themselves");
        }
        // A server may not answer; what it did not commit, nobody was told of.
        let longest = if hub.is_one_of_several() { LONGEST_GOODBYE } else { Duration::MAX };
        if tokio::time::timeout(longest, hub.close()).await.is_err() {
            tracing::warn!("the database does not answer; ending without its goodbye");
        }
        if let Err(error) = std::fs::remove_file(home.socket()) {
            tracing::debug!(%error, "the socket stays behind");
        }
        Ok(ExitCode::SUCCESS)
    }

    fn greet(&self, address: &str, link: &str) -> anyhow::Result<()> {
        let mut out = anstream::stdout();
        writeln!(out, "aye is listening on {address}")?;
        writeln!(out, "Sign in (once, within 15 minutes): {}", paint(HEAD, link))?;
        if self.demo {
            writeln!(
                out,
                "{}",
                paint(
                    DIM,
                    "A demo agent is about to ask. In another terminal: aye list, aye show ID, aye answer ID 1"
                )
            )?;
        }
        out.flush()?;
        Ok(())
    }
}

/// Every waiting adapter and every page holds a descriptor.
fn allow_many_connections() {
    let mut limit = getrlimit(Resource::Nofile);
    limit.current = limit.maximum;
    if let Err(error) = setrlimit(Resource::Nofile, limit) {
        tracing::warn!(%error, "the limit of open files stays low");
    }
}
