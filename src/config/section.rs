//! Declares the sections of the settings.

/// Makes the type of a section, its defaults and its reader from one row for each key: the type, the default, and the
/// rule that reads it. `first` adjusts defaults that depend on the keys before. Sections within the section come last.
macro_rules! section {
    (
        $(#[$of_type:meta])*
        $name:ident $prefix:literal
        $($(#[$of_key:meta])* $key:ident: $type:ty = $default:expr, $rule:expr $(, first $adjust:expr)?;)*
        $({ $($section:ident: $section_type:ty,)+ })?
    ) => {
        $(#[$of_type])*
        #[derive(Debug, Clone, PartialEq, Serialize)]
        pub struct $name {
            $($(#[$of_key])* pub $key: $type,)*
            $($(pub $section: $section_type,)+)?
        }

        impl Default for $name {
            fn default() -> Self {
                Self {
                    $($key: $default,)*
                    $($($section: <$section_type>::default(),)+)?
                }
            }
        }

        impl $name {
            /// Reads every key of the section.
            pub(in crate::config) fn read(&mut self, reader: &mut Reader) {
                $(
                    $($adjust(self);)?
                    reader.read(concat!($prefix, stringify!($key)), &mut self.$key, $rule);
                )*
                $($(self.$section.read(reader);)+)?
            }
        }
    };
}

pub(super) use section;
