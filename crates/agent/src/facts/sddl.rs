//! Who can read the files below a directory, from its security descriptor as text.
//!
//! Sources, read in 2026-11: MicrosoftDocs/win32, `desktop-src/SecAuthZ/ace-strings.md` and `sid-strings.md`; MS-DTYP, 2.4.2.4
//! (msdn.microsoft.com, `cc980032`); moby/moby, `pkg/idtools/idtools_windows.go` (the accounts of containers).

use std::collections::BTreeSet;

/// Trustees that may read everything: SYSTEM, Administrators and their built-in account, the creator of a file, the installer
/// of Windows, and the accounts of containers, which exist in containers only.
#[rustfmt::skip]
const TRUSTED: [&str; 10] = [
    "SY", "S-1-5-18", "BA", "S-1-5-32-544", "LA", "CO", "S-1-3-0",
    "S-1-5-80-956008885-3418522649-1831038044-1853292631-2271478464",
    "S-1-5-93-2-1", "S-1-5-93-2-2",
];

/// The names of the groups that everyone with an account belongs to.
const NAMES: [(&str, &str, &str); 4] = [
    ("BU", "S-1-5-32-545", r"BUILTIN\Users"),
    ("WD", "S-1-1-0", "Everyone"),
    ("AU", "S-1-5-11", r"NT AUTHORITY\Authenticated Users"),
    ("IU", "S-1-5-4", r"NT AUTHORITY\INTERACTIVE"),
];

/// `FILE_READ_DATA`, `GENERIC_READ` and `GENERIC_ALL`.
const READ: u32 = 0x1 | 0x8000_0000 | 0x1000_0000;
/// The rights that contain one of them. `CC` is the first bit, which is `FILE_READ_DATA` of a file.
const READ_RIGHTS: [&str; 5] = ["FA", "FR", "GA", "GR", "CC"];

/// Who can read the files below a directory with this descriptor, apart from [`TRUSTED`], sorted; `None` if an entry is of a kind
/// that is not known here. Files have the entries that they inherit (`OI`), so that others do not count.
pub fn readers(descriptor: &str) -> Option<Vec<String>> {
    let (_, list) = descriptor.split_once("D:")?;
    let (flags, mut entries) = list.split_at(list.find('(').unwrap_or(list.len()));
    if flags.contains("NO_ACCESS_CONTROL") {
        return Some(vec![name("WD")]);
    }
    let mut allowed = BTreeSet::new();
    let mut denied = BTreeSet::new();
    while let Some((entry, rest)) = entries.strip_prefix('(').and_then(|entries| entries.split_once(')')) {
        let &[kind, flags, rights, _, _, trustee] = entry.split(';').collect::<Vec<_>>().as_slice() else {
            return None;
        };
        let of_kind = match kind {
            "A" => &mut allowed,
            "D" => &mut denied,
            _ => return None,
        };
        if flags.contains("OI") && can_read(rights)? {
            of_kind.insert(trustee);
        }
        entries = rest;
    }
    let others = allowed.difference(&denied).filter(|trustee| !TRUSTED.contains(trustee));
    let names = others.map(|trustee| name(trustee)).collect::<BTreeSet<_>>();
    entries.is_empty().then(|| names.into_iter().collect())
}

/// Whether rights, a number or a list of abbreviations, permit to read.
fn can_read(rights: &str) -> Option<bool> {
    match rights.strip_prefix("0x") {
        Some(digits) => Some(u32::from_str_radix(digits, 16).ok()? & READ != 0),
        None => {
            let pairs = rights.as_bytes().chunks(2).map(str::from_utf8);
            let pairs = pairs.collect::<Result<Vec<_>, _>>().ok()?;
            pairs.iter().all(|pair| pair.len() == 2).then(|| pairs.iter().any(|pair| READ_RIGHTS.contains(pair)))
        }
    }
}

fn name(trustee: &str) -> String {
    let known = NAMES.iter().find(|(short, sid, _)| [short, sid].contains(&&trustee));
    known.map_or(trustee, |(.., name)| name).to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_readers_of_the_files_of_a_directory_are_those_of_its_inherited_entries() {
        let table: &[(&str, Option<&[&str]>)] = &[
            // The root of a drive, as Windows sets it up.
            (
                "O:S-1-5-80-956008885-3418522649-1831038044-1853292631-2271478464G:SYD:PAI(A;;LC;;;AU)(A;OICIIO;SDGXGWGR;;;AU)\
                 (A;OICI;FA;;;SY)(A;OICI;FA;;;BA)(A;OICI;0x1200a9;;;BU)",
                Some(&[r"BUILTIN\Users", r"NT AUTHORITY\Authenticated Users"]),
            ),
            // C:\ProgramData.
            (
                "O:SYG:SYD:PAI(A;OICIIO;GA;;;CO)(A;OICI;FA;;;SY)(A;OICI;FA;;;BA)(A;OICI;0x1200a9;;;BU)(A;CI;DCLCRPCR;;;BU)",
                Some(&[r"BUILTIN\Users"]),
            ),
            // containerd/containerd, `pkg/sys/filesys_windows.go`: the directories that containerd creates.
            ("D:P(A;OICI;GA;;;BA)(A;OICI;GA;;;SY)", Some(&[])),
            // kubernetes/kubernetes, `pkg/util/filesystem/util_windows.go`: `Chmod` with 0750 and with 0755.
            ("O:BAG:SYD:PAI(A;OICI;FA;;;S-1-5-32-544)(A;OICI;FRFX;;;S-1-5-18)(A;OICI;;;;BU)", Some(&[])),
            ("O:BAG:SYD:PAI(A;OICI;FA;;;BA)(A;OICI;FRFX;;;SY)(A;OICI;FRFX;;;BU)", Some(&[r"BUILTIN\Users"])),
            // kubernetes/website, `concepts/storage/projected-volumes.md`: a file, which nothing inherits from.
            ("O:BAG:SYD:AI(A;ID;FA;;;SY)(A;ID;FA;;;BA)(A;ID;0x1200a9;;;BU)", Some(&[])),
            // MicrosoftDocs/win32, `ace-strings.md`, with inheritance.
            ("D:(A;OI;RPWPCCDCLCSWRCWDWOGA;;;S-1-1-0)", Some(&["Everyone"])),
            ("D:AI(XA;OICI;FA;;;WD;(OctetStringType==#1#2#3##))", None),
            ("D:(A;OICI;GX;;;BU)(A;OICI;0x1200a0;;;AU)(A;OICIID;FA;;;S-1-5-93-2-2)", Some(&[])),
            ("D:(D;OICI;FA;;;BU)(A;OICI;FA;;;BU)(A;OICI;FA;;;S-1-5-21-1-2-3-1001)", Some(&["S-1-5-21-1-2-3-1001"])),
            ("D:(D;;FA;;;BU)(A;OICI;FR;;;BU)", Some(&[r"BUILTIN\Users"])),
            ("D:NO_ACCESS_CONTROL", Some(&["Everyone"])),
            ("D:PAI", Some(&[])),
            ("D:(A;OICI;FA;;;BU", None),
            ("D:(A;OICI;F;;;BU)", None),
            ("O:BAG:SY", None),
            ("", None),
        ];
        for (descriptor, expected) in table {
            let expected = expected.map(|names| names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>());
            assert_eq!(readers(descriptor), expected, "{descriptor}");
        }
    }
}
