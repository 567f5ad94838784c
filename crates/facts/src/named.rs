//! Enums whose variants have names.

/// An enum with the names of its variants: `Variant = "name"`, or `Variant` for one that is named as it is written.
#[macro_export]
macro_rules! named_enum {
    ($(#[$meta:meta])* $vis:vis enum $type:ident { $($(#[$of:meta])* $variant:ident $(= $name:literal)?,)* }) => {
        $(#[$meta])*
        $vis enum $type {
            $($(#[$of])* $variant,)*
        }

        impl $type {
            /// All of them, in order.
            $vis const ALL: [Self; [$(stringify!($variant),)*].len()] = [$(Self::$variant,)*];

            /// The name.
            $vis const fn name(self) -> &'static str {
                match self { $(Self::$variant => $crate::named_enum!(@ $variant $($name)?),)* }
            }

            /// The one with this name.
            #[allow(dead_code)] // not every type is looked up
            $vis fn named(name: &str) -> Option<Self> {
                Self::ALL.into_iter().find(|one| one.name() == name)
            }
        }
    };
    (@ $variant:ident) => { stringify!($variant) };
    (@ $variant:ident $name:literal) => { $name };
}

pub(crate) use named_enum;
