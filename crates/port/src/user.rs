//! Users who make requests.

use std::collections::BTreeMap;

/// The name of anonymous users.
pub(crate) const ANONYMOUS: &str = "system:anonymous";
const UNAUTHENTICATED: &str = "system:unauthenticated";
const AUTHENTICATED: &str = "system:authenticated";

/// A Kubernetes user.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct User {
    pub(crate) name: String,
    pub(crate) uid: String,
    pub(crate) groups: Vec<String>,
    pub(crate) extra: BTreeMap<String, Vec<String>>,
}

impl User {
    pub(crate) fn anonymous() -> Self {
        Self { name: ANONYMOUS.to_owned(), groups: vec![UNAUTHENTICATED.to_owned()], ..Self::default() }
    }

    /// Returns true if the user did not authenticate.
    pub(crate) fn is_anonymous(&self) -> bool {
        self.name == ANONYMOUS || self.groups.iter().any(|group| group == UNAUTHENTICATED)
    }

    /// Adds the group of authenticated users, unless the user is anonymous, already in that group, or in the group of
    /// unauthenticated users.
    pub(crate) fn authenticated(mut self) -> Self {
        let said = |group: &String| group == AUTHENTICATED || group == UNAUTHENTICATED;
        if self.name != ANONYMOUS && !self.groups.iter().any(said) {
            self.groups.push(AUTHENTICATED.to_owned());
        }
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_users_who_are_not_anonymous_join_the_group_of_authenticated_users() {
        for (name, groups, expected) in [
            ("jane", &["dev"][..], &["dev", AUTHENTICATED][..]),
            ("jane", &[AUTHENTICATED], &[AUTHENTICATED]),
            ("jane", &[UNAUTHENTICATED], &[UNAUTHENTICATED]),
            (ANONYMOUS, &[], &[]),
        ] {
            let groups = groups.iter().map(ToString::to_string).collect();
            let user = User { name: name.to_owned(), groups, ..User::default() };
            assert_eq!(user.authenticated().groups, expected, "{name}");
        }
    }
}
