//! The text of a file, with what is kept when it is written again: encoding, byte order mark and line ends.

/// The encoding of a text file. The kubelet reads all of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Encoding {
    Utf8,
    Utf8WithMark,
    Utf16Little,
    Utf16Big,
}

/// A decoded text file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Text {
    encoding: Encoding,
    /// The content without byte order mark.
    pub content: String,
}

const UTF8_MARK: &[u8] = &[0xEF, 0xBB, 0xBF];
const UTF16_LITTLE_MARK: &[u8] = &[0xFF, 0xFE];
const UTF16_BIG_MARK: &[u8] = &[0xFE, 0xFF];

impl Text {
    /// Decodes UTF-8, or UTF-16 with a byte order mark.
    pub fn decode(bytes: &[u8]) -> Result<Self, &'static str> {
        let utf16 = |bytes: &[u8], unit: fn([u8; 2]) -> u16| {
            let pairs = bytes.chunks_exact(2);
            let whole = pairs.remainder().is_empty();
            let units = pairs.map(|pair| unit([pair[0], pair[1]])).collect::<Vec<_>>();
            String::from_utf16(&units).ok().filter(|_| whole).ok_or("the file is not valid UTF-16")
        };
        let (encoding, content) = if let Some(rest) = bytes.strip_prefix(UTF8_MARK) {
            (Encoding::Utf8WithMark, utf8(rest)?)
        } else if let Some(rest) = bytes.strip_prefix(UTF16_LITTLE_MARK) {
            (Encoding::Utf16Little, utf16(rest, u16::from_le_bytes)?)
        } else if let Some(rest) = bytes.strip_prefix(UTF16_BIG_MARK) {
            (Encoding::Utf16Big, utf16(rest, u16::from_be_bytes)?)
        } else {
            (Encoding::Utf8, utf8(bytes)?)
        };
        Ok(Self { encoding, content })
    }

    /// The bytes of another content in the encoding of this file.
    pub fn encode(&self, content: &str) -> Vec<u8> {
        let utf16 = |mark: &[u8], bytes: fn(u16) -> [u8; 2]| {
            mark.iter().copied().chain(content.encode_utf16().flat_map(bytes)).collect()
        };
        match self.encoding {
            Encoding::Utf8 => content.as_bytes().to_vec(),
            Encoding::Utf8WithMark => [UTF8_MARK, content.as_bytes()].concat(),
            Encoding::Utf16Little => utf16(UTF16_LITTLE_MARK, u16::to_le_bytes),
            Encoding::Utf16Big => utf16(UTF16_BIG_MARK, u16::to_be_bytes),
        }
    }
}

fn utf8(bytes: &[u8]) -> Result<String, &'static str> {
    String::from_utf8(bytes.to_vec()).map_err(|_| "the file is not valid UTF-8")
}

/// The line end of a text: that of its first line.
pub fn line_end(text: &str) -> &'static str {
    let first = text.find('\n').is_some_and(|at| text[..at].ends_with('\r'));
    if first { "\r\n" } else { "\n" }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_is_written_in_the_encoding_in_which_it_was_read() {
        let table: &[&[u8]] =
            &[b"a: 1\r\n", b"\xEF\xBB\xBFa: \xC3\xB6\n", b"\xFF\xFEa\0:\0\xF6\0", b"\xFE\xFF\0a\0:\0\xF6", b""];
        for bytes in table {
            let text = Text::decode(bytes).unwrap();
            assert_eq!(text.encode(&text.content), *bytes);
            assert!(!text.content.contains('\u{feff}'));
        }
        assert_eq!(Text::decode(b"\xFF\xFEa\0:\0\xF6\0").unwrap().content, "a:ö");
    }

    #[test]
    fn other_bytes_are_not_a_text() {
        assert_eq!(Text::decode(b"\xF6"), Err("the file is not valid UTF-8"));
        assert_eq!(Text::decode(b"\xFF\xFEa"), Err("the file is not valid UTF-16"));
        assert_eq!(Text::decode(b"\xFF\xFE\x00\xD8"), Err("the file is not valid UTF-16"));
    }

    #[test]
    fn the_first_line_decides_the_line_end() {
        assert_eq!(line_end("a\r\nb\n"), "\r\n");
        assert_eq!(line_end("a\nb\r\n"), "\n");
        assert_eq!(line_end("a"), "\n");
    }
}
