//! A registry hive with an empty root key: the smallest file that Windows loads as one.
//!
//! Sources, read 2026-11: `doc/devel/winntreg.txt` of reglookup and the specification `regf` of Kaitai Struct for the blocks and
//! records; MS-DTYP 2.4 for the security descriptor. All numbers are little-endian, and times are 0.

/// The size of the base block, and that of the only bin behind it, in bytes.
const BLOCK: usize = 4096;
/// The size of the header of a bin, in bytes. Offsets of cells count from the begin of the first bin.
const BIN_HEADER: u32 = 32;
const NONE: u32 = u32::MAX;
/// The flags of a root key that cannot be deleted, and whose name is not in UTF-16.
const ROOT_KEY: u16 = 0x04 | 0x08 | 0x20;
const ROOT_NAME: &[u8] = b"ROOT";

/// The subauthorities of the Administrators (`S-1-5-32-544`) and of SYSTEM (`S-1-5-18`).
const ADMINISTRATORS: &[u32] = &[32, 544];
const SYSTEM: &[u32] = &[18];
/// Every right to a key.
const ALL_ACCESS: u32 = 0xf_003f;
/// The entry holds for subkeys too.
const INHERITED: u8 = 0x02;

pub fn empty() -> Vec<u8> {
    let descriptor = security_descriptor();
    let security = BIN_HEADER + u32_of(cell(key(0)).len());
    let cells = [cell(key(security)), cell(security_record(security, &descriptor))].concat();
    let mut bin = [&b"hbin"[..], &numbers(&[0, u32_of(BLOCK), 0, 0, 0, 0, 0]), &cells].concat();
    // The size of a cell that is not in use is positive.
    let free = BLOCK - bin.len();
    bin.extend(numbers(&[u32_of(free)]));
    bin.resize(BLOCK, 0);
    [base_block(), bin].concat()
}

/// Both sequence numbers are equal, because nothing is left to be written. The last number is the checksum of those before it.
fn base_block() -> Vec<u8> {
    let mut block = [&b"regf"[..], &numbers(&[1, 1, 0, 0, 1, 3, 0, 1, BIN_HEADER, u32_of(BLOCK), 1])].concat();
    block.resize(508, 0);
    let words = block.chunks_exact(4).map(|word| u32::from_le_bytes([word[0], word[1], word[2], word[3]]));
    let checksum = words.fold(0, |sum, word| sum ^ word);
    block.extend(numbers(&[checksum]));
    block.resize(BLOCK, 0);
    block
}

/// The record of the root key, without subkeys and values; `security` is the offset of its security record.
fn key(security: u32) -> Vec<u8> {
    let flags = ROOT_KEY.to_le_bytes();
    let time_access_parent = numbers(&[0, 0, 0, NONE]);
    let (no_subkeys, no_values) = (numbers(&[0, 0, NONE, NONE]), numbers(&[0, NONE]));
    let class_and_longest_entries = numbers(&[NONE, 0, 0, 0, 0, 0]);
    let lengths = numbers(&[u32_of(ROOT_NAME.len())]);
    let parts: [&[u8]; 9] = [
        b"nk",
        &flags,
        &time_access_parent,
        &no_subkeys,
        &no_values,
        &numbers(&[security]),
        &class_and_longest_entries,
        &lengths,
        ROOT_NAME,
    ];
    parts.concat()
}

/// A security record that one key uses, and that is the only one in the list of them.
fn security_record(offset: u32, descriptor: &[u8]) -> Vec<u8> {
    [&b"sk\0\0"[..], &numbers(&[offset, offset, 1, u32_of(descriptor.len())]), descriptor].concat()
}

/// Administrators own the key, and they and SYSTEM have every right.
fn security_descriptor() -> Vec<u8> {
    let entries = [ADMINISTRATORS, SYSTEM].map(|who| {
        let who = sid(who);
        let size = u16_of(8 + who.len()).to_le_bytes();
        [&[0, INHERITED][..], &size, &numbers(&[ALL_ACCESS]), &who].concat()
    });
    let entries = entries.concat();
    let (size, count) = (u16_of(8 + entries.len()).to_le_bytes(), 2_u16.to_le_bytes());
    let list = [&[2, 0][..], &size, &count, &[0, 0], &entries].concat();
    let owner = sid(ADMINISTRATORS);
    // Self-relative, with a discretionary list.
    let control = 0x8004_u16.to_le_bytes();
    let after_list = 20 + u32_of(list.len());
    let offsets = numbers(&[after_list, after_list, 0, 20]);
    [&[1, 0][..], &control, &offsets, &list, &owner].concat()
}

/// A security identifier of the NT authority.
fn sid(subauthorities: &[u32]) -> Vec<u8> {
    let count = u16_of(subauthorities.len()).to_le_bytes()[0];
    [&[1, count, 0, 0, 0, 0, 0, 5][..], &numbers(subauthorities)].concat()
}

/// A cell in use: its size, which is a negative multiple of 8, and the content.
fn cell(content: Vec<u8>) -> Vec<u8> {
    let size = (4 + content.len()).next_multiple_of(8);
    let mut cell = [&numbers(&[u32_of(size).wrapping_neg()])[..], &content].concat();
    cell.resize(size, 0);
    cell
}

fn numbers(values: &[u32]) -> Vec<u8> {
    values.iter().flat_map(|value| value.to_le_bytes()).collect()
}

/// All sizes here are those of one block.
#[allow(clippy::cast_possible_truncation)]
fn u32_of(size: usize) -> u32 {
    size as u32
}

#[allow(clippy::cast_possible_truncation)]
fn u16_of(size: usize) -> u16 {
    size as u16
}
