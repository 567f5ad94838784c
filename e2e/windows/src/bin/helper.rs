//! A program for the tests of the agent: it prints, sleeps, starts itself again, keeps files open, manages services, and runs other programs
//! as services.

#[cfg(windows)]
fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    if let Err(error) = windows::run(&arguments) {
        e2e_windows::fail(&error.to_string());
    }
}

#[cfg(not(windows))]
fn main() {
    e2e_windows::fail("the adapter is for Windows");
}

#[cfg(windows)]
mod windows {
    use std::{
        env,
        fs::{self, OpenOptions},
        io::{self, Error, Write},
        os::windows::fs::OpenOptionsExt,
        process::{Command, exit},
        sync::atomic::Ordering,
        thread,
        time::{Duration, Instant},
    };

    use ::windows_service::{
        service::{ServiceAccess, ServiceDependency, ServiceErrorControl, ServiceInfo, ServiceStartType, ServiceType},
        service_manager::{ServiceManager, ServiceManagerAccess},
    };
    use e2e_windows::{
        behavior::Behavior,
        service::{self, Work},
    };
    use winpool_agent::{
        host::{Host, ServiceDefinition, ServiceState},
        windows::Windows,
        windows_service::{self, RESTORE_ARGUMENTS},
    };

    const PAUSE: Duration = Duration::from_millis(10);
    /// How long a service may take to stop before its process is ended.
    const STOP_LIMIT: Duration = Duration::from_secs(60);

    pub(super) fn run(arguments: &[&str]) -> io::Result<()> {
        match arguments {
            ["print", stdout, stderr, code] => {
                print!("{stdout}");
                eprint!("{stderr}");
                exit(number(code)?.try_into().unwrap_or(-1));
            }
            ["fill", bytes] => {
                let text = vec![b'x'; usize::try_from(number(bytes)?).unwrap_or_default()];
                io::stdout().write_all(&text)?;
                io::stderr().write_all(&text)
            }
            ["sleep", milliseconds] => {
                thread::sleep(Duration::from_millis(number(milliseconds)?));
                Ok(())
            }
            // Writes the process ids of itself and of a child, which inherits the output, and waits for the child.
            ["tree", file] => {
                let mut child = Command::new(env::current_exe()?).args(["sleep", "600000"]).spawn()?;
                fs::write(file, format!("{} {}", std::process::id(), child.id()))?;
                child.wait().map(drop)
            }
            // Leaves a child behind that has inherited the output.
            ["orphan", milliseconds] => {
                Command::new(env::current_exe()?).args(["sleep", milliseconds]).spawn()?;
                print!("done");
                Ok(())
            }
            // Keeps a file open with a mode of sharing, and creates another file as soon as it does.
            ["hold", file, share, milliseconds, ready] => {
                let share = number(share)?.try_into().unwrap_or_default();
                let file = OpenOptions::new().read(true).share_mode(share).open(file)?;
                fs::write(ready, "")?;
                thread::sleep(Duration::from_millis(number(milliseconds)?));
                drop(file);
                Ok(())
            }
            ["install-service", name, command, depends_on @ ..] => install_service(name, command, depends_on),
            ["start-service", name] => {
                Windows.start(name)?;
                while Windows.state(name)? == Some(ServiceState::Pending) {
                    thread::sleep(PAUSE);
                }
                print!("{}", state(name)?);
                Ok(())
            }
            ["stop-service", name] => {
                Windows.stop(name)?;
                let begun = Instant::now();
                while runs(name)? {
                    // Under Wine, kube-log-runner does not always see that the kubelet has ended.
                    if begun.elapsed() > STOP_LIMIT
                        && let Some(pid) = Windows.process(name)?
                    {
                        Windows.kill(pid)?;
                    }
                    thread::sleep(PAUSE);
                }
                Ok(())
            }
            ["service-state", name] => {
                print!("{}", state(name)?);
                Ok(())
            }
            ["host", log, pipe, program, arguments @ ..] => host(log, pipe, program, arguments),
            ["set-restore-service", installed] => Windows.set_restore_service(*installed == "true"),
            // As the service that `set-restore-service` has installed.
            arguments if *arguments == RESTORE_ARGUMENTS => windows_service::run(|| {
                fs::write(env::temp_dir().join("winpool-restored"), "restored")?;
                if env::temp_dir().join("winpool-restore-fails").exists() { Err(Error::other("no")) } else { Ok(()) }
            }),
            _ => Err(Error::other(format!("unknown arguments {arguments:?}"))),
        }
    }

    /// The state of a service as text; `Absent` if it does not exist.
    fn state(name: &str) -> io::Result<&'static str> {
        Ok(match Windows.state(name)? {
            None => "Absent",
            Some(ServiceState::Stopped) => "Stopped",
            Some(ServiceState::Pending) => "Pending",
            Some(ServiceState::Running { .. }) => "Running",
        })
    }

    /// Whether a service has not stopped. Wine reports one whose process has ended as stopping.
    fn runs(name: &str) -> io::Result<bool> {
        Ok(match Windows.state(name)? {
            None | Some(ServiceState::Stopped) => false,
            Some(ServiceState::Pending) => !matches!(Windows.process(name), Ok(None)),
            Some(ServiceState::Running { .. }) => true,
        })
    }

    /// Defines a service with a process of its own. Its command line is written as it is.
    fn install_service(name: &str, command: &str, depends_on: &[&str]) -> io::Result<()> {
        let info = ServiceInfo {
            name: name.into(),
            display_name: name.into(),
            service_type: ServiceType::OWN_PROCESS,
            start_type: ServiceStartType::OnDemand,
            error_control: ServiceErrorControl::Normal,
            executable_path: name.into(),
            launch_arguments: Vec::new(),
            dependencies: depends_on.iter().map(|name| ServiceDependency::Service(name.into())).collect(),
            account_name: None,
            account_password: None,
        };
        let access = ServiceManagerAccess::CONNECT | ServiceManagerAccess::CREATE_SERVICE;
        let manager = ServiceManager::local_computer(None::<&str>, access).map_err(Error::other)?;
        manager.create_service(&info, ServiceAccess::QUERY_STATUS).map_err(Error::other)?;
        let depends_on = depends_on.iter().map(|name| (*name).to_owned()).collect();
        let definition =
            ServiceDefinition { name: name.into(), command: command.into(), depends_on, ..Default::default() };
        Windows.define(&definition)
    }

    /// The flags in a file such as `kubeadm-flags.env`, of which a start script makes arguments.
    fn environment_file(path: &str) -> io::Result<Vec<String>> {
        let text = fs::read_to_string(path)?;
        let flags = text.split('"').nth(1).unwrap_or_default();
        Ok(flags.split_whitespace().map(str::to_owned).collect())
    }

    /// Runs a program as a service: it is killed when the service is stopped, and its output is in a file. An argument `@FILE` stands for
    /// the flags in an environment file. If the program has a pipe, the
    /// service runs when the pipe has been opened. That is not only the moment when it can be: under Wine, the first client of a pipe of Go
    /// has no server.
    fn host(log: &str, pipe: &str, program: &str, arguments: &[&str]) -> io::Result<()> {
        let output = OpenOptions::new().create(true).append(true).open(log)?;
        let mut command = Command::new(program);
        for argument in arguments {
            match argument.strip_prefix('@') {
                Some(file) => command.args(environment_file(file)?),
                None => command.arg(argument),
            };
        }
        command.current_dir(r"C:\").stdout(output.try_clone()?).stderr(output);
        let pipe = pipe.to_owned();
        let start = move || -> Work {
            let mut child = match command.spawn() {
                Ok(child) => child,
                Err(error) => e2e_windows::fail(&error.to_string()),
            };
            let is_ready = || pipe == "-" || OpenOptions::new().read(true).write(true).open(&pipe).is_ok();
            while !is_ready() && matches!(child.try_wait(), Ok(None)) {
                thread::sleep(PAUSE);
            }
            Box::new(move |stop| {
                while !stop.load(Ordering::Relaxed) && matches!(child.try_wait(), Ok(None)) {
                    thread::sleep(PAUSE);
                }
                let _ = child.kill();
                let _ = child.wait();
            })
        };
        service::run(Behavior::default(), start)
    }

    fn number(text: &str) -> io::Result<u64> {
        text.parse().map_err(Error::other)
    }
}
