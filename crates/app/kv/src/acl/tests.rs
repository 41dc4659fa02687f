//! Rules: what they allow, and that their text makes the same users again.

use super::*;
use crate::command::about;
use proptest::prelude::*;

fn user(rules: &str) -> User {
    let mut user = User::new(b"u", false);
    let rules: Vec<&[u8]> = rules.split(' ').map(str::as_bytes).collect();
    for rule in merge_selectors(&rules).unwrap() {
        user.apply(&rule, false).unwrap();
    }
    user
}

fn check(user: &User, line: &str) -> Result<(), Denied> {
    let words: Vec<&[u8]> = line.split(' ').map(str::as_bytes).collect();
    user.check(about::look_up(&words).unwrap(), &words)
}

#[test]
fn each_kind_of_rule_allows_what_it_says_and_no_more() {
    let cases: &[(&str, &[&str], &[&str])] = &[
        ("+get ~a*", &["get a1"], &["get b", "set a1 v", "mget a1"]),
        (
            "+@read ~*",
            &["get a", "lrange a 0 1"],
            &["set a b", "del a"],
        ),
        (
            "+@all -@dangerous ~*",
            &["get a"],
            &["keys *", "flushall", "config get x"],
        ),
        (
            "+config|get",
            &["config get x"],
            &["config set x y", "config resetstat"],
        ),
        (
            "+config -config|set",
            &["config get x"],
            &["config set x y"],
        ),
        ("+select|0 -ping", &["select 0"], &["select 1", "ping"]),
        (
            "+@all %R~r* %W~w*",
            &["get r", "set w v", "copy r w", "exists r w"],
            &["set r v", "get w", "copy w r"],
        ),
        ("+@all %RW~a", &["getset a 1"], &["getset b 1"]),
        (
            "+@all &news*",
            &["publish news1 x", "subscribe news2", "psubscribe news*"],
            &[
                "publish other x",
                "subscribe news1 other",
                "psubscribe news1*",
                "psubscribe *",
            ],
        ),
        (
            "+@all ~a (+get ~b) (+set ~b)",
            &["get a", "get b", "set b 1"],
            &["mget a b", "getdel b"],
        ),
        (
            "+@all ~a",
            &[
                "eval x 1 a",
                "sort a store a",
                "xread streams a 0",
                "object encoding a",
            ],
            &[
                "eval x 2 a b",
                "sort a store b",
                "xread streams a b 0 0",
                "object encoding b",
                "georadius a 1 1 1 m store a store b",
            ],
        ),
        (
            "allcommands allkeys allchannels",
            &["flushall", "get a", "publish c x"],
            &[],
        ),
        (
            "allcommands allkeys allchannels nocommands",
            &["auth u p", "hello"],
            &["get a"],
        ),
    ];
    for (rules, allowed, refused) in cases {
        let user = user(rules);
        for line in *allowed {
            assert_eq!(check(&user, line), Ok(()), "{rules}: {line}");
        }
        for line in *refused {
            assert!(check(&user, line).is_err(), "{rules}: {line}");
        }
    }
}

#[test]
fn what_is_refused_is_said_by_the_set_of_rules_that_came_furthest() {
    let user = user("+set ~a (+get ~b) (+publish &c)");
    assert_eq!(check(&user, "del a"), Err(Denied::Command));
    assert_eq!(check(&user, "get a"), Err(Denied::Key(1)));
    assert_eq!(check(&user, "publish d x"), Err(Denied::Channel(1)));
}

#[test]
fn passwords_are_told_apart() {
    let mut user = user("on >one >two");
    assert!(user.accepts(b"one") && user.accepts(b"two"));
    assert!(!user.accepts(b"three") && !user.accepts(b""));
    user.apply(b"<one", false).unwrap();
    assert!(!user.accepts(b"one") && user.accepts(b"two"));
    user.apply(b"off", false).unwrap();
    assert!(!user.accepts(b"two"));
    user.apply(b"nopass", false).unwrap();
    assert!(!user.accepts(b"any"));
    user.apply(b"on", false).unwrap();
    assert!(user.accepts(b"any"));
    let shown = String::from_utf8(self::user(">secret").show()).unwrap();
    assert!(!shown.contains("secret"), "{shown}");
}

#[test]
fn rules_that_are_none_are_refused() {
    for (rule, error) in [
        ("x", RuleError::Syntax),
        ("%~a", RuleError::Syntax),
        ("%R", RuleError::Syntax),
        ("~a b", RuleError::Syntax),
        ("&a\0", RuleError::Syntax),
        ("(~a) +get)", RuleError::Syntax),
        ("(", RuleError::Syntax),
        ("+", RuleError::Unknown),
        ("+@", RuleError::Unknown),
        ("+@nosuch", RuleError::Unknown),
        ("-nosuch", RuleError::Unknown),
        ("-select|0", RuleError::Unknown),
        ("+config|nosuch", RuleError::Unknown),
        ("+select|", RuleError::Syntax),
        ("+config|get|x", RuleError::FirstArgument),
        ("#12", RuleError::Hash),
        ("<none", RuleError::NoPassword),
        ("(+nosuch)", RuleError::Unknown),
    ] {
        let mut user = User::new(b"u", false);
        assert_eq!(user.apply(rule.as_bytes(), false), Err(error), "{rule}");
    }
    let mut all = user("~* &*");
    assert_eq!(all.apply(b"~a", false), Err(RuleError::AllKeys));
    assert_eq!(all.apply(b"&a", false), Err(RuleError::AllChannels));
    assert_eq!(merge_selectors(&[b"on", b"(+get", b"~a"]), Err(1));
}

#[test]
fn a_file_with_errors_says_them_all_and_gives_no_users() {
    let read = |text: &str| Acl::parse(text.as_bytes(), "users");
    let users = read("user one on +get ~a\n\n  user two (+set ~b)\r\n").unwrap();
    assert_eq!(users.len(), 2);
    let text = "user a +nosuch\nusers b\nuser c\nuser c\nuser d (+get\nuser e\tf on\n";
    let errors = read(text).unwrap_err().to_string();
    for part in [
        "users:1: Unknown command or category name in ACL. ",
        "users:2 should start with user keyword followed by the username. ",
        "WARNING: Duplicate user 'c' found on line 4. ",
        "users:5: Unmatched parenthesis in selector definition.",
        "'users:6: username 'e\tf' contains invalid characters. ",
        "no change to the previously active ACL rules was performed",
    ] {
        assert!(errors.contains(part), "{part}: {errors}");
    }
}

/// A rule of a set of rules.
fn rule() -> impl Strategy<Value = String> {
    let count = about::all().len();
    let command = (0..count).prop_map(|at| about::all()[at].name.to_owned());
    let category = (0..about::CATEGORIES.len()).prop_map(|at| about::CATEGORIES[at].to_owned());
    let sign = prop_oneof![Just("+"), Just("-")];
    prop_oneof![
        (sign.clone(), command).prop_map(|(sign, name)| format!("{sign}{name}")),
        (sign, category).prop_map(|(sign, name)| format!("{sign}@{name}")),
        "[+](get|select|debug|object|config)[|][a-z0-9()\"]{0,3}",
        "(~|%R~|%W~|%rw~|&)[a-z*()\"\\\\|~%&+-]{0,4}",
        Just("~*".to_owned()),
        Just("&*".to_owned()),
        "(all|reset)(keys|channels)|allcommands|nocommands|[+-]@all",
    ]
}

fn rule_of_a_user() -> impl Strategy<Value = String> {
    let selector = proptest::collection::vec(rule(), 0..6);
    prop_oneof![
        5 => rule(),
        1 => selector.prop_map(|rules| format!("({})", rules.join(" "))),
        1 => "on|off|nopass|resetpass|reset|clearselectors|(skip-)?sanitize-payload|[<>][a-c]{1,2}",
    ]
}

proptest! {
    #[test]
    fn the_text_of_a_user_makes_the_same_user(
        rules in proptest::collection::vec(rule_of_a_user(), 0..20),
        all_channels: bool,
    ) {
        let mut user = User::new(b"some:one", all_channels);
        for rule in rules {
            let before = user.clone();
            if user.apply(rule.as_bytes(), all_channels).is_err() {
                user = before;
            }
        }
        let line = user.show();
        let shown = String::from_utf8_lossy(&line).into_owned();
        for other_default in [false, true] {
            let again = file::parse(&line, "users", other_default);
            prop_assert_eq!(again.as_ref(), Ok(&vec![user.clone()]), "{}", shown);
        }
    }

    #[test]
    fn no_text_makes_the_parser_fail(bytes: Vec<u8>) {
        // It is refused, or not.
        let _ = file::parse(&bytes, "users", false);
        let mut user = User::new(b"u", false);
        let _ = user.apply(&bytes, false);
    }
}
