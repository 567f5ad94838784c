//! A Windows node as [`Host`]: its files, services and programs.
//!
//! Everything is done from within a HostProcess container or a service, which run as LocalSystem in the file system of the
//! host.

#![allow(clippy::disallowed_methods)] // I/O, and time

mod container_runtime;
mod files;
mod programs;
mod registry;
mod services;

use std::{io, thread, time::Duration};

use jiff::Timestamp;

use super::{
    host::{
        Host, ProgramOutput, RegistryKey, RuntimeError, SandboxKind, ServiceDefinition, ServicePolicy, ServiceState,
    },
    loopback,
};

/// The Windows node that this program runs on.
#[derive(Clone, Copy, Debug, Default)]
pub struct Windows;

impl Host for Windows {
    fn read(&self, path: &str) -> io::Result<Option<Vec<u8>>> {
        files::read(path)
    }

    fn read_end(&self, path: &str, bytes: u64) -> io::Result<Option<Vec<u8>>> {
        files::read_end(path, bytes)
    }

    fn replace(&self, path: &str, content: &[u8]) -> io::Result<()> {
        files::replace(path, content)
    }

    fn remove(&self, path: &str) -> io::Result<()> {
        files::remove(path)
    }

    fn list(&self, directory: &str) -> io::Result<Vec<String>> {
        files::list(directory)
    }

    fn is_local(&self, path: &str) -> io::Result<bool> {
        files::is_local(path)
    }

    fn services(&self) -> io::Result<Vec<ServiceDefinition>> {
        services::definitions()
    }

    fn policy(&self, service: &str) -> io::Result<ServicePolicy> {
        services::policy(service)
    }

    fn registry(&self, key: &str) -> io::Result<Option<RegistryKey>> {
        registry::key(key)
    }

    fn define(&self, definition: &ServiceDefinition) -> io::Result<()> {
        services::define(definition)
    }

    fn state(&self, service: &str) -> io::Result<Option<ServiceState>> {
        services::state(service)
    }

    fn process(&self, service: &str) -> io::Result<Option<u32>> {
        services::process(service)
    }

    fn processes(&self, program: &str) -> io::Result<Vec<u32>> {
        programs::processes(program)
    }

    fn start(&self, service: &str) -> io::Result<()> {
        services::start(service)
    }

    fn stop(&self, service: &str) -> io::Result<()> {
        services::stop(service)
    }

    fn kill(&self, pid: u32) -> io::Result<()> {
        programs::kill(pid)
    }

    fn run(&self, program: &str, arguments: &[String], limit: Duration) -> io::Result<ProgramOutput> {
        programs::run(program, arguments, limit)
    }

    fn http_status(&self, port: u16, path: &str) -> io::Result<u16> {
        loopback::http_status(port, path)
    }

    fn ensure_image(&self, pipe: &str, image: &str, limit: Duration) -> Result<(), RuntimeError> {
        container_runtime::call(pipe, async |client| client.ensure_image(image, limit).await)
    }

    fn try_sandbox(&self, pipe: &str, kind: SandboxKind, limit: Duration) -> Result<(), RuntimeError> {
        container_runtime::call(pipe, async |client| client.try_sandbox(kind, limit).await)
    }

    fn set_restore_service(&self, installed: bool) -> io::Result<()> {
        if installed { services::install_restore() } else { services::remove_restore() }
    }

    fn now(&self) -> Timestamp {
        Timestamp::now()
    }

    fn sleep(&self, time: Duration) {
        thread::sleep(time);
    }
}
