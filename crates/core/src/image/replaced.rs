//! The images that Kustomize replaces.

use std::collections::BTreeSet;

#[derive(Clone, Debug, Default)]
pub struct ReplacedImages(BTreeSet<String>);

impl ReplacedImages {
    /// Whether an image is replaced, whatever its tag and digest.
    pub fn contains(&self, image: &str) -> bool {
        let tagged = image.split('@').next().unwrap_or_default();
        let name = tagged.rsplit_once(':').filter(|(_, tag)| !tag.contains('/')).map_or(tagged, |(name, _)| name);
        self.0.contains(name)
    }
}

impl Extend<String> for ReplacedImages {
    fn extend<I: IntoIterator<Item = String>>(&mut self, names: I) {
        self.0.extend(names);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_image_is_replaced_by_its_name() {
        let mut replaced = ReplacedImages::default();
        replaced.extend(["web".to_owned(), "example.com:5000/log".to_owned()]);
        let table = [
            ("web", true),
            ("web:1", true),
            ("web@sha256:1", true),
            ("example.com:5000/log:1", true),
            ("log:1", false),
        ];
        for (image, expected) in table {
            assert_eq!(replaced.contains(image), expected, "{image}");
        }
    }
}
