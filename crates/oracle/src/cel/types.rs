//! Types of generated expressions.

/// A type. In productions, a lower-case name is a type, and a single upper-case letter stands for any type.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Type {
    pub(super) name: String,
    pub(super) params: Vec<Type>,
}

/// Letters, each with the type for which it stands.
pub(super) type Bindings = Vec<(String, Type)>;

impl Type {
    pub(super) fn new(name: &str, params: Vec<Type>) -> Self {
        Self { name: name.to_owned(), params }
    }

    pub(super) fn simple(name: &str) -> Self {
        Self::new(name, Vec::new())
    }

    /// Parses a type such as `map(string, list(T))`.
    pub(super) fn parse(text: &str) -> Self {
        let text = text.trim();
        let Some((name, rest)) = text.split_once('(') else { return Self::simple(text) };
        let inner = rest.strip_suffix(')').unwrap_or(rest);
        let (mut params, mut depth, mut start) = (Vec::new(), 0, 0);
        for (at, c) in inner.char_indices() {
            match c {
                '(' => depth += 1,
                ')' => depth -= 1,
                ',' if depth == 0 => {
                    params.push(Self::parse(&inner[start..at]));
                    start = at + 1;
                }
                _ => {}
            }
        }
        params.push(Self::parse(&inner[start..]));
        Self::new(name, params)
    }

    fn is_letter(&self) -> bool {
        self.name.len() == 1 && self.name.starts_with(|c: char| c.is_ascii_uppercase())
    }

    /// Finds types for the letters of this type that make it equal to the wanted type. Returns false if there are none.
    pub(super) fn bind(&self, wanted: &Type, bindings: &mut Bindings) -> bool {
        if self.is_letter() {
            if let Some((_, bound)) = bindings.iter().find(|(letter, _)| *letter == self.name) {
                return bound == wanted;
            }
            bindings.push((self.name.clone(), wanted.clone()));
            return true;
        }
        self.name == wanted.name
            && self.params.len() == wanted.params.len()
            && self.params.iter().zip(&wanted.params).all(|(ours, wanted)| ours.bind(wanted, bindings))
    }

    /// Replaces the letters by types. `other` chooses types for new letters.
    pub(super) fn bound(&self, bindings: &mut Bindings, other: &mut impl FnMut(&str) -> Type) -> Type {
        if !self.is_letter() {
            let params = self.params.iter().map(|param| param.bound(bindings, other)).collect();
            return Self::new(&self.name, params);
        }
        if let Some((_, bound)) = bindings.iter().find(|(letter, _)| *letter == self.name) {
            return bound.clone();
        }
        let chosen = other(&self.name);
        bindings.push((self.name.clone(), chosen.clone()));
        chosen
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn letters_stand_for_one_type_each() {
        let generic = Type::parse("map(K, list(K))");
        let mut bindings = Bindings::new();
        assert!(generic.bind(&Type::parse("map(int, list(int))"), &mut bindings));
        assert_eq!(bindings, [("K".to_owned(), Type::simple("int"))]);
        assert!(!generic.bind(&Type::parse("map(int, list(bool))"), &mut Bindings::new()));
    }
}
